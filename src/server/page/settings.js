// The settings: what the form shows, keeps, and puts into requests.
import { make } from './dom.js';
import { loadSettings, saveSettings } from './store.js';

const fields = [
    { name: 'system', label: 'System prompt', rows: 3 },
    { name: 'reasoning_effort', label: 'Thinking',
        options: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'] },
    { name: 'max_tokens', label: 'Answer tokens, max', min: 1, step: 1 },
    { name: 'temperature', label: 'Temperature', min: 0, max: 2 },
    { name: 'top_p', label: 'Top p', min: 0, max: 1 },
    { name: 'top_k', label: 'Top k', min: 0, step: 1 },
    { name: 'min_p', label: 'Min p', min: 0, max: 1 },
    { name: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2 },
    { name: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2 },
    { name: 'repetition_penalty', label: 'Repetition penalty', min: 0.01, max: 10 },
    { name: 'seed', label: 'Seed', min: 0, step: 1 },
    { name: 'stop', label: 'Stop texts, one a line', rows: 2 },
    { name: 'tools', label: 'Tools, a JSON array as in the API', rows: 4, json: true },
];

function control(field) {
    const common = { id: `set-${field.name}`, name: field.name };
    if (field.rows) {
        return make('textarea', { ...common, rows: field.rows,
            ...(field.json && { class: 'json', spellcheck: 'false' }) });
    }
    if (!field.options) {
        return make('input', { ...common, type: 'number', inputmode: 'decimal', min: field.min,
            max: field.max, step: field.step ?? 'any', placeholder: 'default' });
    }
    return make('select', common, make('option', { value: '' }, 'default'),
        ...field.options.map((o) => make('option', {}, o)));
}

// What is wrong with the text of a JSON field, or "".
function jsonProblem(text) {
    if (!text.trim()) return '';
    try {
        return Array.isArray(JSON.parse(text)) ? ''
            : 'Want a JSON array: [{"type": "function", …}]';
    } catch (e) {
        return `Not JSON: ${e.message}`;
    }
}

// Fills the form; returns {check, request}.
export function settings(form) {
    const kept = loadSettings();
    for (const field of fields) {
        const input = control(field);
        input.value = kept[field.name] ?? '';
        form.append(make('div', { class: field.rows ? 'field wide' : 'field' },
            make('label', { for: input.id }, field.label), input));
    }
    const values = () => Object.fromEntries(new FormData(form));
    const validate = () => {
        for (const { name } of fields.filter((f) => f.json))
            form.elements[name].setCustomValidity(jsonProblem(form.elements[name].value));
    };
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('input', () => {
        validate();
        saveSettings(values());
    });
    validate();

    return {
        // Whether all can be sent; `show` is called before the first that cannot is pointed out.
        check(show) {
            if (form.checkValidity()) return true;
            show();
            form.reportValidity();
            return false;
        },
        // The fields of a request for these messages.
        request(messages) {
            const { system, stop, tools, ...rest } = values();
            const body = {};
            for (const [name, value] of Object.entries(rest)) {
                if (value.trim() === '') continue;
                body[name] = name === 'reasoning_effort' ? value : Number(value);
            }
            const stops = stop.split('\n').filter(Boolean);
            if (stops.length) body.stop = stops;
            if (tools.trim() && JSON.parse(tools).length) body.tools = JSON.parse(tools);
            const first = system.trim() ? [{ role: 'system', content: system }] : [];
            return { ...body, messages: [...first, ...messages] };
        },
    };
}
