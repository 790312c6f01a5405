// The live panel: asks the server once a second how it is, while somebody can see it.
import { ask } from './api.js';
import { bars, chart, seconds } from './chart.js';
import { byId, make } from './dom.js';

const every = 1000, afterFailure = 5000; // milliseconds
const missed = 3; // seconds without a look leave a gap in the charts

const fixed = (n, digits) => n.toLocaleString('en',
    { minimumFractionDigits: digits, maximumFractionDigits: digits });
const digits = (n) => (n < 10 ? 1 : 0);
function bytes(n) {
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let i = 0;
    for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
    return `${fixed(n, i ? digits(n) : 0)} ${units[i]}`;
}
const percent = (part) => `${fixed(part * 100, part < 1 ? 1 : 0)} %`;
const share = (part, whole) => (whole ? percent(part / whole) : '–');
const duration = (s) => (s < 60 ? `${fixed(s, 0)} s`
    : s < 3600 ? `${fixed(Math.floor(s / 60), 0)} min` : `${fixed(s / 3600, 1)} h`);

const charts = [
    { name: 'Decode', of: (s) => s.rates.decode_tokens_per_second, least: 10,
        format: (n) => `${fixed(n, digits(n))} tok/s` },
    { name: 'Expert hit rate', of: (s) => s.rates.hit_rate, most: 1, format: percent },
    { name: 'Disk reads', of: (s) => s.rates.read_bytes_per_second, least: 1e6,
        format: (n) => `${bytes(n)}/s` },
    { name: 'Memory', of: (s) => s.memory.rss_bytes, least: 1e6, format: bytes },
];

const facts = [
    ['Requests', (s) => `${s.requests.running} of ${s.requests.sequences} running, ` +
        `${s.requests.queued} waiting`],
    ['Prefill', (s) => (s.rates.prefill_tokens_per_second === null ? '–'
        : `${fixed(s.rates.prefill_tokens_per_second, 0)} tok/s`)],
    ['Waiting for the disk', (s) => (s.rates.wait_fraction === null ? '–'
        : `${percent(s.rates.wait_fraction)} of the time`)],
    ['Drafts accepted', (s) => share(s.tokens.accepted, s.tokens.drafted)],
    ['Prompt tokens cached', (s) => share(s.tokens.cached, s.tokens.cached + s.tokens.prompt)],
    ['Expert pool', (s) => `${bytes(s.memory.pool_bytes)}, ` +
        `${fixed(s.memory.pool_slots, 0)} slots`],
    ['Kept states', (s) => `${s.memory.prefix_entries} in ${bytes(s.memory.prefix_bytes)}`],
    ['Engine', (s) => `${s.engine ?? '–'}, up ${duration(s.uptime_seconds)}`],
];

// Begins; `isShown` says whether the panel can be seen. Returns a function that looks at once.
export function live(isShown) {
    const drawn = charts.map((c) => ({ ...c, ...chart(c), samples: [] }));
    const values = facts.map(() => make('dd', {}, '–'));
    const note = byId('live-note');
    let asking = false, waitUntil = 0;
    const layers = bars({ name: 'Hit rate by layer', format: percent });
    byId('charts').append(...drawn.map((d) => d.element), layers.element);
    byId('facts').append(...facts.map(([name], i) =>
        make('div', {}, make('dt', {}, name), values[i])));

    function draw(stats) {
        const now = performance.now() / 1000;
        for (const d of drawn) {
            d.samples = d.samples.filter((s) => now - s.time <= seconds);
            const before = d.samples.at(-1)?.time ?? now;
            if (now - before > missed) d.samples.push({ time: before, value: null });
            d.samples.push({ time: now, value: stats && (d.of(stats) ?? null) });
            d.draw(d.samples, now);
        }
        layers.draw(stats ? stats.layers.map((l) => l.hit_rate_now) : []);
        facts.forEach(([, of], i) => { values[i].textContent = stats ? of(stats) : '–'; });
    }

    async function look() {
        if (!isShown() || document.hidden || asking) return;
        asking = true;
        waitUntil = 0;
        try {
            const stats = await ask('v1/stats');
            draw(stats);
            note.textContent = { loading: 'The model is being loaded.',
                draining: 'The server is being stopped.' }[stats.state] ?? '';
        } catch (e) {
            draw(null);
            note.textContent = e.message;
            waitUntil = Date.now() + afterFailure;
        }
        note.hidden = !note.textContent;
        asking = false;
    }
    setInterval(() => { if (Date.now() >= waitUntil) look(); }, every);
    document.addEventListener('visibilitychange', look);
    return look;
}
