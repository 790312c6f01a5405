// Chat templates against `@huggingface/jinja`, the implementation in JavaScript: the conversations
// of tests/data/templates/cases.json, and the released model's template on those of
// tests/data/vectors/template_extra_cases.json.
//
// Both must render the same text, or both refuse. Where they part for a reason listed below, the
// answer of Jinja2, which is in those files, must be ours. A reason that explains nothing any more
// is an error too.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.NPM_ROOT}/`);
const { Template } = require('@huggingface/jinja');
const data = 'tests/data';
const read = (path) => readFileSync(`${data}/${path}`, 'utf8');

// `name`: template and conversation; `theirs`, `ours`: what they or we refuse with.
const known = [
    {
        why: 'prints none as nothing, not as None',
        name: /^(documents.jinja null|gmask_sop.jinja (null|calls)) /,
    },
    {
        why: 'prints lists and mappings as JSON, not as Python does',
        name: /^documents.jinja parts /,
    },
    {
        why: 'has no chain of filters in a filter block',
        theirs: /Parser Error: .* Pipe !== CloseStatement/,
    },
    {
        why: 'does not loop over what is undefined',
        theirs: /Expected iterable .* got UndefinedValue/,
    },
    {
        why: 'does not trim what is no string',
        theirs: /^(Unknown ArrayValue filter: trim|Cannot apply filter "trim")/,
    },
    {
        why: 'adds a list or mapping to a string',
        ours: /'\+' does not work between str and (list|dict)$/,
    },
    {
        why: 'finds attributes of what is undefined',
        ours: /element 0 is not defined: not in the list$/,
    },
];

// --- cases: {name, template, vars, text or error: Jinja2's} ---

const given = JSON.parse(read('templates/cases.json'));
const sources = {};
const cases = given.cases.map((c) => ({
    ...c,
    name: `${c.template} ${c.conversation} ${c.options}`,
    template: (sources[c.template] ??= read(`templates/${c.template}`)),
    vars: { messages: given.conversations[c.conversation], ...given.options[c.options] },
}));
const released = read('vectors/chat_template.jinja');
for (const c of JSON.parse(read('vectors/template_extra_cases.json')).cases)
    cases.push({ ...c, name: `released ${c.id}`, template: released, vars: c.context });

// --- renderings ---

// strftime_now asks for the time: it is the same for all.
const now = new Date(given.now * 1000);
globalThis.Date = class extends Date {
    constructor(...words) {
        super(...(words.length ? words : [now]));
    }
};
process.env.TZ = 'UTC';

function theirs(c) {
    try {
        return { text: new Template(c.template).render(structuredClone(c.vars)) };
    } catch (e) {
        return { error: e.message };
    }
}

const answers = execFileSync(`${process.env.B}/tool_template`, {
    input: cases
        .map(({ template, vars }) => JSON.stringify({ template, vars, now: given.now }))
        .join('\n'),
    maxBuffer: 1 << 30,
}).toString().trim().split('\n').map((line) => JSON.parse(line));

// --- comparing ---

function explains(k, name, js, us) {
    return (!k.name || k.name.test(name)) && (!k.theirs || k.theirs.test(js.error)) &&
        (!k.ours || k.ours.test(us.error));
}

const count = { same: 0, refused: 0 };
let wrong = 0;
cases.forEach((c, i) => {
    const js = theirs(c), us = answers[i];
    if (js.text !== undefined && js.text === us.text) return count.same++;
    if (js.error !== undefined && us.error !== undefined) return count.refused++;
    const reason = known.find((k) => explains(k, c.name, js, us));
    if (reason) reason.n = (reason.n ?? 0) + 1;
    if (reason && us.text === c.text) return;
    if (wrong++ < 5) console.log(c.name, { js, us, jinja2: c.text ?? c.error });
});
for (const k of known) {
    console.log(`note: ${k.n ?? 0} cases differ: js ${k.why}`);
    if (!k.n) wrong++;
}
console.log(`note: ${cases.length} conversations: ${count.same} the same text, ` +
    `${count.refused} refused by both, ${wrong} wrong`);
process.exit(wrong ? 1 : 0);
