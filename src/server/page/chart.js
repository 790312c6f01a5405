// Charts, as SVG: of one number over the last two minutes, and of one number by layer.
import { make, makeSvg } from './dom.js';

export const seconds = 120;
const width = 240, height = 56;

// The smallest of 1, 2, 5, 10, 20, ... that is no less.
function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value);
}

// The parts that both have: a name, the latest value as text, a drawing of `paths`.
function frame(name, ...paths) {
    const value = make('span', { class: 'value' }, '–'); // no output: it would be read out
    const top = make('span', { class: 'top' });
    const grid = makeSvg('path', { class: 'grid', d: `M0 .5H${width}M0 ${height - 0.5}H${width}` });
    const svg = makeSvg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none',
        role: 'img', 'aria-label': name }, grid, ...paths);
    const element = make('figure', { class: 'chart' },
        make('figcaption', {}, make('span', {}, name), value),
        make('div', { class: 'plot' }, svg, top));
    return { element, value, top, svg };
}

// {element, draw(samples, now)}; samples are [{time, value or null}], times in seconds.
//   name, format(value): a text with its unit; most: the top of the scale, if it is fixed;
//   least: the lowest top otherwise
export function chart({ name, format, most, least = 1 }) {
    const area = makeSvg('path', { class: 'area' });
    const line = makeSvg('path', { class: 'line' });
    const { element, value, top, svg } = frame(name, area, line);

    return {
        element,
        draw(samples, now) {
            const known = samples.filter((s) => s.value !== null);
            const peak = Math.max(0, ...known.map((s) => s.value));
            const scale = most ?? roundUp(Math.max(peak, least));
            const x = (s) => (width * (1 - (now - s.time) / seconds)).toFixed(1);
            const y = (s) => (1 + (height - 2) * (1 - Math.min(s.value / scale, 1))).toFixed(1);
            let lines = '', areas = '', open = null;
            const close = (s) => {
                if (open) areas += `L${x(s)} ${height}H${x(open)}Z`;
                open = null;
            };
            samples.forEach((s, i) => {
                if (s.value === null) return close(samples[i - 1]);
                const at = `${open ? 'L' : 'M'}${x(s)} ${y(s)}`;
                lines += at;
                areas += at;
                open ??= s;
            });
            if (open) close(samples.at(-1));
            line.setAttribute('d', lines);
            area.setAttribute('d', areas);
            const latest = samples.at(-1)?.value ?? null;
            value.textContent = latest === null ? '–' : format(latest);
            top.textContent = format(scale);
            svg.setAttribute('aria-label', `${name}, last two minutes: now ` +
                `${value.textContent}, highest ${known.length ? format(peak) : '–'}`);
        },
    };
}

// {element, draw(values)}: values of 0 to 1, or null, one a layer.
export function bars({ name, format }) {
    const path = makeSvg('path', { class: 'bars' });
    const { element, value, top, svg } = frame(name, path);
    top.remove(); // the bars would lie under it
    return {
        element,
        draw(values) {
            const wide = width / (values.length || 1);
            const gap = wide > 4 ? 1 : 0;
            path.setAttribute('d', values.map((v, i) => (v === null ? ''
                : `M${(i * wide).toFixed(2)} ${height}v${(-v * (height - 2)).toFixed(1)}` +
                  `h${(wide - gap).toFixed(2)}V${height}Z`)).join(''));
            const known = values.filter((v) => v !== null);
            const least = Math.min(...known);
            value.textContent = known.length
                ? `least ${format(least)}, layer ${values.indexOf(least)}` : '–';
            svg.setAttribute('aria-label', `${name}: ${value.textContent}`);
        },
    };
}
