// The web page in a headless Chromium, on the packed demonstration model. What that model cannot do
// (call tools, write Markdown or HTML) is answered by this file in the server's place. In every
// case: nothing is asked of another origin, no script fails, and no text has become an element.
//
//   CHROMIUM=PATH       the browser, if not one of chromium, chromium-browser, google-chrome
//   CASE=WORD           only the cases whose names have it
//   SCREENSHOTS=FOLDER  keeps pictures there
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { idle, key, serve } from './aid/serve.mjs';

const require = createRequire(`${process.env.NPM_ROOT}/`);
const { chromium } = await import(pathToFileURL(require.resolve('playwright-core')))
    .then((m) => m.default);
const greeting = 'Hello! Shall I tell you a story?';
const chat = '**/v1/chat/completions';
const wide = { viewport: { width: 1280, height: 800 } };
const phone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };
const html = '<img src=x onerror="window.hit=1"><script>window.hit=2</script>';

function findBrowser() {
    const names = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'];
    for (const name of names.filter(Boolean)) {
        try {
            return execFileSync('sh', ['-c', 'command -v "$1"', 'sh', name]).toString().trim();
        } catch {
            // the next one
        }
    }
    return null;
}

// An answer of the server in events, from the deltas of its chunks.
const stream = (deltas, finish = 'stop') => ({
    contentType: 'text/event-stream',
    body: [...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
        { choices: [{ index: 0, delta: {}, finish_reason: finish }] }]
        .map((event) => `data: ${JSON.stringify(event)}\n\n`).join('') + 'data: [DONE]\n\n',
});

let server, browser;

// A page of a new visitor, who has the key unless told otherwise; `check` ends it.
async function visit(options = wide, { withKey = true } = {}) {
    // Without motion: what pulses is drawn again sixty times a second, by the processor here.
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options,
        baseURL: server.url });
    const page = await context.newPage();
    const wrong = [];
    page.allowed = /status of 40[01]/; // what the console may say
    page.on('pageerror', (e) => wrong.push(`${e}`));
    page.on('console', (m) => {
        if (['error', 'warning'].includes(m.type()) && !page.allowed.test(m.text()))
            wrong.push(m.text());
    });
    page.on('request', (r) => {
        if (!r.url().startsWith(`${server.url}/`)) wrong.push(`asks for ${r.url()}`);
    });
    if (withKey) await page.addInitScript((k) => sessionStorage.setItem('cherenkov.key', k), key);
    const answer = await page.goto('/');
    assert.match(answer.headers()['content-security-policy'], /default-src 'none'/);
    page.check = async () => {
        assert.equal(await page.evaluate(() => window.hit), undefined);
        assert.equal(await page.locator('#log img, #log script').count(), 0);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
        assert.deepEqual(wrong, []);
        await context.close();
    };
    return page;
}

const answers = (page) => page.locator('.answer .text');
const say = async (page, text) => {
    await page.fill('#message', text);
    await page.click('#send');
};
const begun = (page) => answers(page).last().getByText(/.{20}/s).waitFor();
const ended = (page) => page.locator('#send').waitFor();
const picture = (page, name) => process.env.SCREENSHOTS &&
    page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png` });
// The next answers do not end by themselves.
const endless = (page) => page.route(chat, (route) => route.continue({
    postData: { ...route.request().postDataJSON(), ignore_eos: true } }));

async function sendsAndStreams() {
    const page = await visit();
    await page.evaluate(() => {
        window.lengths = new Set();
        new MutationObserver(() => {
            window.lengths.add(document.querySelector('.answer .text')?.textContent.length ?? 0);
        }).observe(document.getElementById('log'), { childList: true, subtree: true });
    });
    await say(page, 'Hello!');
    await ended(page);
    assert.equal(await answers(page).textContent(), greeting);
    assert.ok(await page.evaluate(() => window.lengths.size) > 2, 'it came in pieces');
    assert.match(await page.textContent('.answer .note'),
        /^\d+ tok at [\d.]+ tok\/s · prompt \d+ tok$/);
    assert.equal(await page.textContent('#spoken'), 'Shall I tell you a story?');

    for (let i = 0; i < 2; i++) { // the whole conversation is sent; the server knows its beginning
        await say(page, 'Hello!');
        await ended(page);
    }
    assert.match(await page.locator('.answer .note').last().textContent(),
        /prompt \d+ tok, \d+ cached$/);
    await page.check();
}

async function stopsAndRetries() {
    const page = await visit();
    await endless(page);
    await say(page, 'Tell me a story.');
    await begun(page);
    await page.click('#stop');
    await ended(page);
    await idle(server.url);
    assert.equal(await page.textContent('.answer .note'), 'Stopped.');
    const before = await answers(page).textContent();
    await page.unroute(chat);
    await page.click('[data-side=sampling]');
    await page.fill('#set-max_tokens', '4');
    await page.click('text=Retry');
    await ended(page);
    const again = await answers(page).textContent();
    assert.ok(before.startsWith(again) && again.length < 30, again);
    assert.match(await page.textContent('.answer .note'), /^Cut: .* 4 tok at /);
    assert.equal(await page.locator('.answer').count(), 1);
    await page.click('text=Edit');
    assert.equal(await page.inputValue('#message'), 'Tell me a story.');
    assert.equal(await page.locator('.turn').count(), 0);
    await page.check();
}

async function survivesReload() {
    const page = await visit();
    await say(page, 'Hello!');
    await ended(page);
    await page.fill('#message', 'half a wo');
    await page.reload();
    assert.equal(await answers(page).textContent(), greeting);
    assert.equal(await page.inputValue('#message'), 'half a wo');
    await endless(page);
    await say(page, 'Tell me a story.');
    await page.locator('.answer').nth(1).getByText(/.{20}/s).waitFor();
    await page.reload(); // in the middle
    assert.match(await answers(page).last().textContent(), /.{20}/);
    assert.equal(await page.locator('.answer .note').last().textContent(),
        'The answer was interrupted.');
    await idle(server.url);

    await page.click('#new');
    assert.equal(await page.locator('.turn').count(), 0);
    assert.deepEqual(await page.locator('#chats option').allTextContents(),
        ['New conversation', 'Hello!']);
    await page.selectOption('#chats', { label: 'Hello!' });
    assert.equal(await page.locator('.turn').count(), 4);
    page.on('dialog', (dialog) => dialog.accept());
    await page.click('#delete');
    await page.reload();
    assert.equal(await page.locator('.turn').count(), 0);
    assert.equal(await page.evaluate(() => Object.keys(localStorage).length), 0);
    await page.check();
}

async function asksForAKey() {
    const page = await visit(wide, { withKey: false });
    for (const wrong of ['\u201cquoted\u201d', 'wrong']) { // no header can carry the first as it is
        await page.fill('#key', wrong);
        await page.keyboard.press('Enter');
        await page.locator('#key-why', { hasText: 'not right' }).waitFor();
    }
    await page.fill('#key', key);
    await page.keyboard.press('Enter');
    await page.locator('#key-dialog').waitFor({ state: 'hidden' });
    await say(page, 'Hello!');
    await ended(page);
    assert.equal(await answers(page).textContent(), greeting);
    assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage))).includes(key));

    await page.evaluate(() => sessionStorage.setItem('cherenkov.key', 'old'));
    await say(page, 'Hello!'); // asks again, and then sends by itself
    await page.fill('#key', key);
    await page.click('text=Use it');
    await page.waitForFunction((want) => [...document.querySelectorAll('.answer .text')]
        .filter((e) => e.textContent === want).length === 2, greeting);
    await page.check();
}

async function showsErrors() {
    const page = await visit();
    await say(page, 'word '.repeat(5000));
    await ended(page);
    assert.match(await page.textContent('.error'),
        /too long for the model.*context holds 4096.*Begin a new one/);
    await page.click('#new');
    const fails = async (fulfil, says) => {
        await page.route(chat, fulfil);
        await say(page, 'Hello!');
        await ended(page);
        assert.match(await page.locator('.answer .error').last().textContent(), says);
        await page.unroute(chat);
    };
    page.allowed = /status of|Failed to load resource/;
    await fails((r) => r.abort(), /cannot be reached/);
    await fails((r) => r.fulfill({ status: 503, headers: { 'Retry-After': '2' },
        json: { error: { message: 'all are busy' } } }), /all are busyTry again in 2 seconds/);
    await fails((r) => r.fulfill({ ...stream([{ content: 'Hel' }]), body: 'data: {"choices":[' +
        '{"delta":{"content":"Hel"}}]}\n\n' }), /broke before the answer was whole/);
    await fails((r) => r.fulfill({ ...stream([]), body: 'data: {}\n\n' }), /does not know/);
    await fails((r) => r.fulfill({ ...stream([]), body: 'data: {"error":{"message":"the disk' +
        ' failed"}}\n\n' }), /the disk failed/);
    await page.click('text=Retry');
    await page.locator('.answer .text', { hasText: greeting }).waitFor();
    await page.route('**/v1/models', (r) => r.abort());
    await page.reload(); // while the server is started again
    await page.locator('#notice', { hasText: 'cannot be reached' }).waitFor();
    await page.unroute('**/v1/models');
    await page.locator('#model', { hasText: 'cherenkov' }).waitFor();
    assert.ok(await page.locator('#notice').isHidden());
    await page.click('[data-side=sampling]');
    await page.fill('#set-temperature', '3');
    await say(page, 'no');
    assert.equal(await page.inputValue('#message'), 'no'); // was not sent; the field says why
    assert.equal(await page.evaluate(() => document.activeElement.id), 'set-temperature');
    await page.check();
}

async function keepsTextText() {
    const page = await visit();
    await page.route(chat, (route) => route.fulfill(stream([
        { reasoning_content: `Hm ${html}` },
        { content: `${html}\n\n# Of *foxes*\n\n1. **one ${html}**\n   - two\n2. \`${html}\`\n\n` },
        { content: `\`\`\`html\n${html}\n\`\`\`\n\n> quoted\n\n` },
        { content: '[link](javascript:alert(1)) 2 * 3 * 4' }])));
    await say(page, html);
    await ended(page);
    const text = answers(page);
    assert.equal(await page.textContent('.user .plain'), html);
    assert.equal(await page.textContent('.thinking .plain'), `Hm ${html}`);
    assert.equal(await text.locator('p').first().textContent(), html);
    assert.equal(await text.locator('h4 em').textContent(), 'foxes');
    assert.equal(await text.locator('ol > li > strong').textContent(), `one ${html}`);
    assert.equal(await text.locator('ol > li > ul > li').textContent(), 'two');
    assert.equal(await text.locator('ol > li > code').textContent(), html);
    assert.equal(await text.locator('pre code').textContent(), html);
    assert.equal(await text.locator('blockquote').textContent(), 'quoted');
    assert.equal(await text.locator('p').last().textContent(),
        '[link](javascript:alert(1)) 2 * 3 * 4');
    assert.equal(await page.locator('#log a').count(), 0);
    await page.reload();
    assert.equal(await page.textContent('.user .plain'), html);
    assert.equal(await page.locator('#chats option').first().textContent(), html.slice(0, 60));
    await picture(page, 'markdown');
    await page.unroute(chat);
    await page.route(chat, (route) => route.fulfill(stream([{ content: '>'.repeat(9000) },
        { content: `\n\n${'**a '.repeat(9000)} **b**\n\nend` }])));
    await say(page, 'quote');
    await ended(page);
    await page.reload(); // a message that cannot be drawn once ended the page for good
    assert.equal(await text.last().locator('blockquote').count(), 9);
    assert.equal(await text.last().locator('strong').last().textContent(), 'b');
    assert.equal(await text.last().locator('p').last().textContent(), 'end');
    await page.evaluate(() => {
        const key = Object.keys(localStorage).find((k) => k.startsWith('cherenkov.chat.'));
        const kept = JSON.parse(localStorage[key]);
        kept.messages[1].tool_calls = 'of another version';
        localStorage[key] = JSON.stringify(kept);
    });
    await page.reload();
    assert.equal(await page.locator('.turn', { hasText: 'cannot be shown' }).count(), 1);
    assert.equal(await page.locator('.turn').count(), 4);
    await page.check();
}

// What an attacker would try who could run something: the browser refuses all of it.
async function policyHolds() {
    const page = await visit();
    page.allowed = /./;
    const refused = await page.evaluate(async () => {
        const seen = new Set();
        document.addEventListener('securitypolicyviolation', (e) => seen.add(e.effectiveDirective));
        const attempt = (f) => { try { f(); } catch { /* that is the point */ } };
        attempt(() => { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); });
        const style = document.createElement('style');
        style.textContent = '* { color: red }';
        const image = Object.assign(new Image(), { src: 'https://example.invalid/' });
        document.body.append(style, image);
        await fetch('https://example.invalid/').catch(() => {});
        await new Promise((r) => setTimeout(r, 100));
        return [...seen].sort();
    });
    assert.deepEqual(refused,
        ['connect-src', 'img-src', 'require-trusted-types-for', 'style-src-elem']);
    await page.context().close();
}

async function thinksAndCalls() {
    const page = await visit();
    await page.click('[data-side=sampling]');
    await page.selectOption('#set-reasoning_effort', 'low');
    await page.fill('#set-max_tokens', '8');
    await say(page, 'Hello!');
    await ended(page);
    assert.match(await page.textContent('.thinking .plain'), /\w/);
    await page.click('#new');

    const weather = { name: 'weather', parameters: { type: 'object' } };
    const tools = [{ type: 'function', function: weather }];
    await page.fill('#set-tools', JSON.stringify(tools));
    const call = (f, id) => ({ tool_calls: [{ index: 0, ...id, function: f }] });
    let body;
    await page.route(chat, (route) => {
        body = route.request().postDataJSON();
        route.fulfill(body.messages.at(-1).role === 'tool' ? stream([{ content: 'It rains.' }])
            : stream([call({ name: 'weather', arguments: '' }, { id: 'call_1' }),
                call({ arguments: '{"city":' }), call({ arguments: '"Paris"}' })], 'tool_calls'));
    });
    await say(page, 'How is the weather in Paris?');
    await ended(page);
    assert.deepEqual(body.tools, tools);
    assert.equal(body.reasoning_effort, 'low');
    assert.equal(await page.textContent('.call h4'), 'Calls weather');
    assert.equal(await page.textContent('.call pre'), '{\n  "city": "Paris"\n}');
    await picture(page, 'tools');
    await page.fill('.call textarea', 'rain');
    await page.click('text=Give this result');
    await page.locator('.answer .text', { hasText: 'It rains.' }).waitFor();
    assert.deepEqual(body.messages.slice(1), [
        { role: 'assistant', content: '', tool_calls: [{ id: 'call_1', type: 'function',
            function: { name: 'weather', arguments: '{"city":"Paris"}' } }] },
        { role: 'tool', content: 'rain', tool_call_id: 'call_1' }]);
    await page.check();
}

async function worksByKeyboard() {
    const page = await visit();
    const focus = () => page.evaluate(() => document.activeElement.id ||
        document.activeElement.dataset.side || document.activeElement.textContent);
    const press = async (...keys) => { for (const k of keys) await page.keyboard.press(k); };
    assert.equal(await focus(), 'message');
    const order = [];
    for (let i = 0; i < 6; i++) {
        await press('Shift+Tab');
        order.push(await focus());
    }
    assert.deepEqual(order, ['log', 'sampling', 'live', 'new', 'chats', 'Skip to the message']);
    await press('Enter');
    await page.keyboard.type('Hello');
    await press('Shift+Enter');
    await page.keyboard.type('there!');
    await endless(page);
    await press('Enter');
    assert.equal(await page.textContent('.user .plain'), 'Hello\nthere!');
    await begun(page);
    await press('Escape');
    await ended(page);
    assert.equal(await focus(), 'message');
    await press('Shift+Tab');
    assert.equal(await focus(), 'Retry');
    await press('Enter');
    await page.locator('#stop').waitFor();
    await press('Escape');
    await ended(page);
    await page.check();
}

async function fitsAPhone() {
    const page = await visit({ ...phone, colorScheme: 'dark' });
    const long = 'x'.repeat(300);
    await page.route(chat, (route) => route.fulfill(stream([
        { content: `${long}\n\n\`\`\`\n${long}\n\`\`\`\n\n- ${long}` }])));
    await say(page, `Hello! ${long}`);
    await ended(page);
    const narrow = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth &&
        document.getElementById('log').scrollWidth <= innerWidth);
    assert.ok(await narrow());
    await picture(page, 'phone');
    for (const side of ['live', 'sampling']) {
        await page.tap(`[data-side=${side}]`);
        assert.ok(await narrow());
        assert.ok(await page.evaluate(() =>
            document.getElementById('side').scrollWidth <= innerWidth));
        await picture(page, `phone-${side}`);
    }
    await page.keyboard.press('Escape');
    assert.ok(await page.isVisible('#message'));
    const small = await page.evaluate(() => [...document.querySelectorAll('button, select')]
        .filter((e) => e.offsetHeight && e.offsetHeight < 24).map((e) => e.outerHTML));
    assert.deepEqual(small, []);
    await page.check();
}

// Contrast of every text that can be seen with the ground behind it, in both schemes.
async function isReadable() {
    for (const colorScheme of ['light', 'dark']) {
        const page = await visit({ ...wide, colorScheme });
        await endless(page);
        await say(page, 'Tell me a story.');
        await page.locator('[aria-busy=true]').waitFor();
        assert.equal(await page.evaluate(() => getComputedStyle(
            document.querySelector('[aria-busy=true]'), '::after').animationName), 'none');
        await page.click('#stop');
        await ended(page);
        assert.deepEqual(await page.evaluate(lowContrast), []);
        const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(Number(/\d+/.exec(ground)[0]) < 128, colorScheme === 'dark');
        await page.check();
    }
}

// Runs in the page: texts whose contrast is under 4.5.
function lowContrast() {
    const numbers = (color) => color.match(/[\d.]+/g).map(Number);
    const light = (color) => numbers(color).slice(0, 3).map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => {
        const color = getComputedStyle(e).backgroundColor;
        return (numbers(color)[3] ?? 1) > 0 ? color : ground(e.parentElement);
    };
    return [...document.querySelectorAll('body *')]
        .filter((e) => e.checkVisibility() && !e.disabled &&
            [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()))
        .filter((e) => {
            const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
        }).map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`);
}

async function showsFigures() {
    const page = await visit();
    await page.click('[data-side=sampling]');
    await page.fill('#set-max_tokens', '100');
    await say(page, 'Tell me a story about a fox.');
    await page.click('[data-side=live]');
    await page.waitForFunction(() => [...document.querySelectorAll('.chart .value')]
        .every((e) => /\d/.test(e.textContent)), null, { timeout: 10000 });
    const values = await page.locator('.chart .value').allTextContents();
    const [speed, hits, reads, memory, layers] = values;
    assert.match(speed, /^[\d.]+ tok\/s$/);
    assert.match(hits, /^[\d.]+ %$/);
    assert.match(reads, /^[\d.]+ [kMG]?B\/s$/);
    assert.match(layers, /^least [\d.]+ %, layer \d+$/);
    assert.match(memory, /^\d+(\.\d)? MB$/);
    assert.match(await page.locator('.chart .line').first().getAttribute('d'), /^M[\d. L]+$/);
    assert.match(await page.locator('.chart svg').first().getAttribute('aria-label'),
        /^Decode, last two minutes: now [\d.]+ tok\/s, highest /);
    await ended(page);
    assert.match(await page.textContent('#facts'), /Requests[01] of \d+ running, 0 waiting/);
    await picture(page, 'wide');
    await page.check();
}

const executablePath = findBrowser();
if (!executablePath) {
    console.log('there is no Chromium here (make deps-ci)');
    process.exit(77);
}
server = await serve('--temperature', '0');
try {
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    const tests = [sendsAndStreams, stopsAndRetries, survivesReload, asksForAKey, showsErrors,
        keepsTextText, policyHolds, thinksAndCalls, worksByKeyboard, fitsAPhone, isReadable,
        showsFigures];
    for (const test of tests.filter((t) => t.name.includes(process.env.CASE ?? ''))) {
        const begun = Date.now();
        await test();
        console.log(`${test.name}: fine, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
    }
    await browser.close();
    assert.equal(await server.stop(), 0);
} finally {
    await browser?.close();
    server.remove();
}
