// What the browser keeps: conversations and settings for good (localStorage), the API key, the
// conversation shown and a message half written for this tab (sessionStorage).
//
// A conversation is {id, title, time, messages}, each under a key of its own, so that two tabs
// do not overwrite each other's.

const prefix = 'cherenkov.chat.';

// The storage of that name; where the browser allows none, one that ends with the page.
function open(name) {
    try {
        window[name].setItem('cherenkov.probe', '');
        window[name].removeItem('cherenkov.probe');
        return window[name];
    } catch {
        const map = new Map();
        return {
            get length() { return map.size; },
            key: (i) => [...map.keys()][i],
            getItem: (key) => map.get(key) ?? null,
            setItem: (key, value) => map.set(key, value),
            removeItem: (key) => map.delete(key),
        };
    }
}
const local = open('localStorage');
const tab = open('sessionStorage');

function parse(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null; // written by somebody else; as if it were not there
    }
}

const isMessage = (m) => typeof m?.role === 'string' && typeof (m.content ?? '') === 'string';

export function loadChat(id) {
    const chat = parse(local.getItem(prefix + id));
    return Array.isArray(chat?.messages) && chat.messages.every(isMessage) ? chat : null;
}

// All conversations, the latest first.
export function listChats() {
    const chats = [];
    for (let i = 0; i < local.length; i++) {
        const key = local.key(i);
        const chat = key.startsWith(prefix) ? loadChat(key.slice(prefix.length)) : null;
        if (chat) chats.push(chat);
    }
    return chats.sort((a, b) => b.time - a.time);
}

export const newChat = () =>
    ({ id: Date.now().toString(36) + Math.random().toString(36).slice(2, 6), title: '',
        time: Date.now(), messages: [] });

// false: the browser's storage is full.
export function saveChat(chat) {
    if (chat.messages.length === 0) return true;
    chat.time = Date.now();
    chat.title ||= chat.messages[0].content.trim().split('\n')[0].slice(0, 60);
    try {
        local.setItem(prefix + chat.id, JSON.stringify(chat));
        return true;
    } catch {
        return false;
    }
}

export const removeChat = (id) => local.removeItem(prefix + id);
export const isChatKey = (key) => key === null || key.startsWith(prefix);

export const loadSettings = () => parse(local.getItem('cherenkov.settings')) ?? {};
export function saveSettings(values) {
    try {
        local.setItem('cherenkov.settings', JSON.stringify(values));
    } catch {
        // full: then they last as long as the page
    }
}

// A word that this tab keeps: "key", "chat", "draft", "side".
export const recall = (name) => tab.getItem(`cherenkov.${name}`) ?? '';
export function remember(name, value) {
    try {
        tab.setItem(`cherenkov.${name}`, value);
    } catch {
        // full: then it lasts as long as the page
    }
}
