// The conversation shown: its messages, the answer that is coming, and what may be done with them.
//
//     idle --send, retry, giveResult--> answering --ended, failed, stop()--> idle
import { ApiError, events } from './api.js';
import { byId } from './dom.js';
import { speaker, tell } from './speech.js';
import { saveChat } from './store.js';
import { turn, unknownTurn } from './turn.js';

const saveEvery = 1000; // milliseconds, while an answer comes
const nearEnd = 60; // pixels: who is that close to the end follows it

// What a request takes of a message; null: nothing (an answer that never began).
function toApi({ role, content, reasoning_content, tool_calls, tool_call_id }) {
    const isWhole = (call) => {
        try {
            return JSON.parse(call.function.arguments) !== null;
        } catch {
            return false; // stopped in the middle
        }
    };
    const calls = tool_calls?.filter(isWhole) ?? [];
    if (role === 'assistant' && !content && !calls.length) return null;
    return { role, content, ...(reasoning_content && { reasoning_content }),
        ...(calls.length && { tool_calls: calls }), ...(tool_call_id && { tool_call_id }) };
}

// Adds an event of the stream to the answer.
function add(message, event) {
    if (event.error) throw new ApiError(event.error.message, 0, event.error.code ?? '');
    if (event.usage) Object.assign(message, { usage: event.usage, timings: event.timings });
    const choice = event.choices[0];
    if (!choice) return;
    if (choice.finish_reason) message.finish = choice.finish_reason;
    const { content, reasoning_content, tool_calls } = choice.delta;
    if (content) message.content += content;
    if (reasoning_content)
        message.reasoning_content = (message.reasoning_content ?? '') + reasoning_content;
    for (const { index, id, function: f } of tool_calls ?? []) {
        const calls = message.tool_calls ??= [];
        if (id) calls[index] = { id, type: 'function', function: { name: f.name, arguments: '' } };
        calls[index].function.arguments += f.arguments ?? '';
    }
}

// What went wrong, in lines for the reader.
function explain(e) {
    if (!(e instanceof ApiError))
        return ['The answer has a form that this page does not know. Is there another server?'];
    if (e.code === 'context_length_exceeded')
        return ['This conversation has become too long for the model.', e.message,
            'Begin a new one, or edit the last message to make it shorter.'];
    if (e.status === 503)
        return [e.message, `Try again in ${e.retryAfter || 'some'} seconds.`];
    return [e.message];
}

// given: {settings, needKey(why) -> promise of whether there is one now, changed(): the list of
// conversations, problem(text)}
export function conversation(given) {
    const log = byId('log');
    let chat = null;
    let running = null; // AbortController
    let departed = false;

    const last = () => chat.messages.at(-1);
    const isAnswered = (call) =>
        chat.messages.some((m) => m.role === 'tool' && m.tool_call_id === call.id);

    function save(which) {
        if (!saveChat(which)) given.problem('The browser has no room to keep this conversation. ' +
            'Delete others; until then it is lost when the page is closed.');
        given.changed();
    }

    // Shows message `at` of the conversation; busy: it is still coming.
    function append(at, busy) {
        const { messages } = chat;
        const lastIs = (test) => at === messages.findLastIndex(test);
        let t;
        try {
            t = turn(messages[at], {
                isAnswered,
                retry: lastIs(() => true) ? retry : null,
                edit: lastIs((m) => m.role === 'user') ? () => edit(at) : null,
                giveResult: lastIs((m) => m.role !== 'tool') ? giveResult : null,
            });
            t.update(busy);
        } catch {
            t = unknownTurn(); // of another version of this page: the others can be read
        }
        log.append(t.element);
        return t;
    }

    // Shows all of them, at the end; returns the last one's turn.
    function show(busy = false) {
        log.replaceChildren();
        const turns = chat.messages.map((m, at) => append(at, busy && m === last()));
        log.scrollTop = log.scrollHeight;
        return turns.at(-1);
    }

    // Does what makes the log longer; who was at its end still is.
    function following(change) {
        const follow = log.scrollHeight - log.scrollTop - log.clientHeight < nearEnd;
        change();
        if (follow) log.scrollTop = log.scrollHeight;
    }

    function setBusy(busy) {
        byId('send').hidden = busy;
        byId('stop').hidden = !busy;
        tell(busy ? 'Answering.' : '');
    }

    // Draws the answer at most once a frame.
    function painter(t, message, speak) {
        let asked = 0;
        const paint = () => {
            asked = 0;
            following(() => t.update(true));
            speak(message.content, false);
        };
        return {
            soon() { asked ||= requestAnimationFrame(paint); },
            end() { cancelAnimationFrame(asked); },
        };
    }

    async function receive(mine, message, paint, signal) {
        const body = { ...given.settings.request(mine.messages.map(toApi).filter(Boolean)),
            stream: true, stream_options: { include_usage: true } };
        let saved = Date.now();
        for await (const event of events('v1/chat/completions', { body, signal })) {
            add(message, event);
            paint.soon();
            if (Date.now() - saved < saveEvery) continue;
            saved = Date.now();
            saveChat(mine);
        }
    }

    // Asks for the answer to what is there.
    async function answer() {
        const mine = chat;
        const message = { role: 'assistant', content: '' };
        const controller = running = new AbortController();
        const speak = speaker();
        let failure = null;
        mine.messages.push(message);
        const t = show(true);
        const paint = painter(t, message, speak);
        setBusy(true);
        try {
            await receive(mine, message, paint, controller.signal);
        } catch (e) {
            failure = e;
        }
        paint.end();
        if (departed) return;
        if (failure?.name === 'AbortError') message.finish = 'stopped';
        else if (failure) message.error = { lines: explain(failure) };
        save(mine);
        if (running !== controller) return; // another conversation is shown by now
        running = null;
        setBusy(false);
        following(() => t.update(false));
        speak(message.content, true);
        if (failure?.status === 401 && await given.needKey(failure.message)) retry();
        else if (!failure) tell('The answer is whole.');
    }

    function stop() {
        running?.abort();
    }

    // Leaves what is shown, stopped but kept.
    function leave() {
        stop();
        running = null;
        setBusy(false);
    }

    function retry() {
        if (running) return;
        if (last().role === 'assistant') chat.messages.pop();
        answer();
    }

    // Takes back the reader's last message and what follows it, and puts its text into the box.
    function edit(at) {
        const box = byId('message');
        leave();
        box.value = [chat.messages[at].content, box.value].filter(Boolean).join('\n');
        chat.messages.length = at;
        show();
        box.focus();
    }

    function giveResult(call, text) {
        if (running) return;
        const { tool_calls } = chat.messages.findLast((m) => m.role !== 'tool');
        chat.messages.push({ role: 'tool', tool_call_id: call.id, content: text });
        save(chat);
        if (tool_calls.every(isAnswered)) answer();
        else show();
    }

    return {
        get chat() { return chat; },
        get busy() { return running !== null; },
        stop,
        open(which) {
            leave();
            chat = which;
            show();
        },
        send(text) {
            chat.messages.push({ role: 'user', content: text });
            save(chat);
            answer();
        },
        // The page goes: what has come of an answer stays, as one that was interrupted.
        depart() {
            if (running) saveChat(chat);
            departed = true;
        },
    };
}
