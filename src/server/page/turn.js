// One message of a conversation as an element, and what there is to do with it.
import { button, make } from './dom.js';
import { render } from './markdown.js';

const pretty = (json) => {
    try {
        return JSON.stringify(JSON.parse(json), null, 2);
    } catch {
        return json; // not whole yet
    }
};

// How an answer ended, where that is worth a word.
function endOf(message) {
    switch (message.finish) {
    case undefined: return 'The answer was interrupted.';
    case 'stopped': return 'Stopped.';
    case 'cancelled': return 'Cancelled on the server.';
    case 'length': return 'Cut: the limit of tokens was reached.';
    default: return '';
    }
}

const number = (n, digits = 0) =>
    n.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });

function figures({ usage, timings }) {
    if (!usage || !timings) return '';
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const prompt = `prompt ${number(usage.prompt_tokens)} tok` +
        (cached ? `, ${number(cached)} cached` : '');
    return `${number(usage.completion_tokens)} tok at ` +
        `${number(timings.predicted_per_second, 1)} tok/s · ${prompt}`;
}

// A call of a tool: name, arguments, and a place for the result until there is one.
function callElement(call, answered, giveResult) {
    const box = make('section', { class: 'call', 'aria-label': `Tool call ${call.function.name}` },
        make('h4', {}, 'Calls ', make('code', {}, call.function.name)),
        make('pre', { tabindex: 0 }, pretty(call.function.arguments)));
    if (answered || !giveResult) return box;
    const area = make('textarea', { rows: 2, placeholder: 'Result',
        'aria-label': `Result of ${call.function.name}` });
    box.append(make('form', {
        submit(event) {
            event.preventDefault();
            giveResult(call, area.value);
        },
    }, area, make('button', {}, 'Give this result')));
    return box;
}

// The element of a message, and update(busy): shows what the message is by now.
//   does: {retry, edit, giveResult}, each only where it can be done; isAnswered(call)
export function turn(message, does) {
    return message.role === 'assistant' ? answerTurn(message, does) : givenTurn(message, does);
}

// One that cannot be shown.
export const unknownTurn = () => ({
    element: make('article', { class: 'turn' },
        make('p', { class: 'error' }, 'This message cannot be shown.')),
    update() {},
});

function givenTurn(message, does) {
    const user = message.role === 'user';
    const element = make('article', { class: user ? 'turn user' : 'turn tool' },
        make('h3', {}, user ? 'You' : 'Result'),
        make('div', { class: 'plain' }, message.content));
    if (user && does.edit) element.append(make('div', { class: 'row' }, button('Edit', does.edit)));
    return { element, update() {} };
}

function answerTurn(message, does) {
    const summary = make('summary');
    const thought = make('div', { class: 'plain' });
    const thinking = make('details', { class: 'thinking' }, summary, thought);
    const text = make('div', { class: 'text' });
    const calls = make('div');
    const note = make('p', { class: 'note' });
    const error = make('div', { class: 'error', role: 'alert' });
    const row = make('div', { class: 'row' });
    const element = make('article', { class: 'turn answer' },
        make('h3', {}, 'Model'), thinking, text, calls, error, note, row);

    function showThinking(busy) {
        const open = busy && !message.content;
        thinking.hidden = !message.reasoning_content;
        if (thinking.hidden) return;
        summary.textContent = open ? 'Thinking …' : 'Thinking';
        thought.textContent = message.reasoning_content;
        // Open while it comes, closed with the answer's first word; a reader's own choice stands.
        if (thinking.dataset.by !== 'reader') thinking.open = open || !message.content;
    }
    summary.addEventListener('click', () => { thinking.dataset.by = 'reader'; });

    function showError() {
        error.hidden = !message.error;
        error.replaceChildren(...(message.error?.lines ?? []).map((line) => make('p', {}, line)));
    }

    function showActions() {
        const copy = button('Copy', async () => {
            await navigator.clipboard.writeText(message.content);
            copy.textContent = 'Copied';
        });
        row.replaceChildren(
            ...(message.content && navigator.clipboard ? [copy] : []),
            ...(does.retry ? [button('Retry', does.retry)] : []));
    }

    return {
        element,
        update(busy) {
            element.setAttribute('aria-busy', busy);
            showThinking(busy);
            render(text, message.content);
            calls.replaceChildren(...(message.tool_calls ?? []).map((call) =>
                callElement(call, does.isAnswered(call), busy ? null : does.giveResult)));
            showError();
            if (busy) return;
            note.textContent = [message.error ? '' : endOf(message), figures(message)]
                .filter(Boolean).join(' ');
            showActions();
        },
    };
}
