// A little Markdown: code, headings, lists, quotes, bold, italic. Everything else is text as it
// stands. Builds elements; nothing that a model writes is read as HTML, and there are no links.
import { make } from './dom.js';

const quotesMax = 8;
const fence = /^ {0,3}(`{3,}|~{3,})\s*(\S*)/;
const item = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)/;
const heading = /^(#{1,6})\s+(.*)/;
const quote = /^ {0,3}> ?(.*)/;

// Blocks of a text, in order: {kind, source, ...}; source is what a block was made of.
export function blocks(text) {
    const lines = text.split('\n');
    const found = [];
    for (let i = 0; i < lines.length;) {
        const begin = i;
        const block = lines[i].trim() === '' ? null : read();
        if (!block) i++;
        else found.push({ ...block, source: lines.slice(begin, i).join('\n') });

        function read() {
            const f = fence.exec(lines[i]);
            if (f) return code(f[1], f[2]);
            const h = heading.exec(lines[i]);
            if (h) return i++, { kind: 'heading', level: h[1].length, text: h[2] };
            if (quote.test(lines[i])) return { kind: 'quote', text: take(quote, 1).join('\n') };
            if (item.test(lines[i])) return list();
            return paragraph();
        }
        function code(mark, language) {
            const body = [];
            for (i++; i < lines.length; i++) {
                if (lines[i].trim().startsWith(mark) && /^\s*[`~]+\s*$/.test(lines[i])) {
                    i++;
                    break;
                }
                body.push(lines[i]);
            }
            return { kind: 'code', language, text: body.join('\n') };
        }
        function take(pattern, group) {
            const taken = [];
            for (let m; i < lines.length && (m = pattern.exec(lines[i])); i++) taken.push(m[group]);
            return taken;
        }
        function list() {
            const items = [];
            for (; i < lines.length && lines[i].trim() !== ''; i++) {
                const m = item.exec(lines[i]);
                if (m) items.push({ indent: m[1].length, number: m[2], text: m[3] });
                else if (/^\s/.test(lines[i])) items.at(-1).text += `\n${lines[i].trim()}`;
                else break;
            }
            return { kind: 'list', items };
        }
        function paragraph() {
            const taken = [];
            do taken.push(lines[i++]);
            while (i < lines.length && lines[i].trim() !== '' &&
                ![fence, heading, quote, item].some((p) => p.test(lines[i])));
            return { kind: 'text', text: taken.join('\n') };
        }
    }
    return found;
}

// Bold ends at the next two stars or not at all: who looks further does so from every one of them.
const inlineMark = new RegExp([
    /(`+)(?!`)([^]*?[^`])\1(?!`)/,
    /\*\*(?=\S)((?:(?!\*\*)[^])*\S)\*\*/,
    /\*(?=[^\s*])([^*]*[^\s*])\*/,
].map((r) => r.source).join('|'));

// Text with its marks, as nodes.
function inline(text) {
    const nodes = [];
    for (let m; (m = inlineMark.exec(text)); text = text.slice(m.index + m[0].length)) {
        nodes.push(text.slice(0, m.index));
        if (m[1]) nodes.push(make('code', {}, m[2].trim()));
        else if (m[3]) nodes.push(make('strong', {}, ...inline(m[3])));
        else nodes.push(make('em', {}, ...inline(m[4])));
    }
    return [...nodes, text];
}

// The items from `at` on that are indented like it or deeper; returns the list and where it ends.
function listFrom(items, at) {
    const { indent, number } = items[at];
    const list = number ? make('ol', { start: number }) : make('ul');
    while (at < items.length && items[at].indent >= indent) {
        if (items[at].indent > indent + 1 && list.lastChild) {
            const [inner, end] = listFrom(items, at);
            list.lastChild.append(inner);
            at = end;
        } else {
            list.append(make('li', {}, ...inline(items[at++].text)));
        }
    }
    return [list, at];
}

// depth: quotes around it. A quote in more than quotesMax is text: a model that repeats ">" writes
// thousands, each an element in the one before.
function element(block, depth) {
    switch (block.kind) {
    case 'code': // a long line scrolls, and can be scrolled by keyboard
        return make('pre', { tabindex: 0, 'data-language': block.language || null },
            make('code', {}, block.text));
    case 'heading':
        return make(`h${Math.min(block.level + 3, 6)}`, {}, ...inline(block.text));
    case 'quote':
        return make('blockquote', {}, ...(depth < quotesMax
            ? blocks(block.text).map((b) => element(b, depth + 1)) : [block.text]));
    case 'list': {
        const all = make('div');
        for (let at = 0; at < block.items.length;) {
            const [list, end] = listFrom(block.items, at);
            all.append(list);
            at = end;
        }
        return all;
    }
    default:
        return make('p', {}, ...inline(block.text));
    }
}

const shown = new WeakMap(); // element -> sources of its children

// Makes `into` show this text. Blocks at the front that are the same as before stay as they are, so
// that a growing text costs little and a selection in it survives.
export function render(into, text) {
    const old = shown.get(into) ?? [];
    const now = blocks(text);
    let same = 0;
    while (same < old.length && same < now.length && old[same] === now[same].source) same++;
    while (into.children.length > same) into.lastChild.remove();
    into.append(...now.slice(same).map((block) => element(block, 0)));
    shown.set(into, now.map((b) => b.source));
}
