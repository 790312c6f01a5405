// The page: puts the parts together, and listens to the reader.
import { ask } from './api.js';
import { conversation } from './chat.js';
import { byId, make } from './dom.js';
import { live } from './live.js';
import { settings } from './settings.js';
import { isChatKey, listChats, loadChat, newChat, recall, remember, removeChat } from './store.js';

const box = byId('message');
const side = byId('side');
const sideToggles = document.querySelectorAll('[data-side]');
const narrow = matchMedia('(max-width: 60rem)');
const coarse = matchMedia('(pointer: coarse)');

// --- the key ---

// Asks for a key; resolves with whether one was given.
function needKey(why) {
    const dialog = byId('key-dialog');
    byId('key-why').textContent = recall('key') ? `The key is not right. ${why}` : why;
    byId('key').value = '';
    dialog.returnValue = '';
    if (!dialog.open) dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener('close', () => resolve(dialog.returnValue === 'given'),
            { once: true });
    });
}
byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    remember('key', byId('key').value.trim());
    byId('key-dialog').close('given');
});
byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());

// --- conversations ---

function problem(text) {
    byId('notice').textContent = text;
    byId('notice').hidden = !text;
}

const form = settings(byId('settings'));
const shown = conversation({ settings: form, needKey, problem, changed: list });

function list() {
    const chats = listChats();
    const { chat } = shown;
    if (!chats.some((c) => c.id === chat.id)) chats.unshift(chat);
    byId('chats').replaceChildren(...chats.map((c) =>
        make('option', { value: c.id, selected: c.id === chat.id },
            c.title || 'New conversation')));
    byId('delete').disabled = chat.messages.length === 0;
}

function open(chat) {
    problem('');
    shown.open(chat);
    remember('chat', chat.id);
    list();
}

const kept = (id) => loadChat(id) ?? newChat();
byId('chats').addEventListener('change', (event) => open(kept(event.target.value)));
byId('new').addEventListener('click', () => {
    open(newChat());
    box.focus();
});
byId('delete').addEventListener('click', () => {
    if (!confirm(`Delete the conversation "${shown.chat.title}"?`)) return;
    const { id } = shown.chat;
    shown.chat.messages = [];
    open(newChat());
    removeChat(id);
    list();
    box.focus();
});
// Another tab has written.
addEventListener('storage', ({ key }) => {
    if (!isChatKey(key)) return;
    if (!shown.busy && key?.endsWith(shown.chat.id)) shown.open(kept(shown.chat.id));
    list();
});

// --- writing ---

function send(event) {
    event.preventDefault();
    const text = box.value.trim();
    if (!text || shown.busy || !form.check(() => showSide('sampling'))) return;
    box.value = '';
    problem('');
    shown.send(text);
}
function stop() {
    shown.stop();
    box.focus();
}
byId('composer').addEventListener('submit', send);
byId('stop').addEventListener('click', stop);
box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !coarse.matches)
        send(event);
});
addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    if (shown.busy) stop();
    else if (narrow.matches && !side.hidden) {
        document.querySelector('[aria-expanded="true"]').focus();
        showSide('');
    }
});

// --- the panel ---

// Shows that side, "live" or "sampling", or none of them ("").
function showSide(name) {
    side.hidden = !name;
    byId('main').inert = Boolean(name) && narrow.matches; // the panel covers it
    for (const toggle of sideToggles) {
        toggle.setAttribute('aria-expanded', toggle.dataset.side === name);
        byId(toggle.dataset.side).hidden = toggle.dataset.side !== name;
    }
    look();
}
const look = live(() => !side.hidden && !byId('live').hidden);
const usualSide = () => (narrow.matches ? '' : recall('side') || 'live').replace('none', '');
for (const toggle of sideToggles) {
    toggle.addEventListener('click', () => {
        const name = byId(toggle.dataset.side).hidden || side.hidden ? toggle.dataset.side : '';
        showSide(name);
        if (!narrow.matches) remember('side', name || 'none');
        else if (name) side.querySelector(`#${name} h2`).focus();
    });
}
narrow.addEventListener('change', () => showSide(usualSide()));

// --- beginning and end ---

const greetAgain = 1000; // milliseconds

async function greet() {
    try {
        byId('model').textContent = (await ask('v1/models')).data[0].id;
        problem('');
        look();
    } catch (e) {
        if (e.status === 401 && await needKey(e.message)) return greet();
        problem(e.message);
        if (e.status !== 401) setTimeout(greet, greetAgain); // it may be about to start
    }
}

addEventListener('pagehide', () => {
    remember('draft', box.value);
    shown.depart();
});
addEventListener('pageshow', (event) => {
    if (event.persisted) location.reload(); // back from the browser's memory: nothing runs any more
});
box.value = recall('draft');
open(loadChat(recall('chat')) ?? listChats()[0] ?? newChat());
showSide(usualSide());
if (!coarse.matches) box.focus();
greet();
