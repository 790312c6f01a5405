// The server's API: requests with the key, failures as errors that say what happened, and streams.
import { recall } from './store.js';

export class ApiError extends Error {
    constructor(message, status, code = '', retryAfter = 0) {
        super(message);
        Object.assign(this, { status, code, retryAfter });
    }
}

// The message of a refusal, whatever form its body has.
async function refusal(response) {
    const text = await response.text();
    let error = {};
    try {
        error = JSON.parse(text).error ?? {};
    } catch {
        // a proxy's own page, say
    }
    return new ApiError(error.message ?? `${response.status} ${response.statusText}`,
        response.status, error.code ?? '', Number(response.headers.get('Retry-After')) || 0);
}

// A header's value is characters of one byte each; keys are compared as UTF-8.
const utf8 = (text) => String.fromCharCode(...new TextEncoder().encode(text));

// GET, or POST when there is a body. Relative to the page, so that a proxy may put it anywhere.
export async function request(path, { body, signal } = {}) {
    const key = recall('key');
    let response;
    try {
        response = await fetch(path, {
            method: body ? 'POST' : 'GET',
            headers: {
                ...(body && { 'Content-Type': 'application/json' }),
                ...(key && { Authorization: `Bearer ${utf8(key)}` }),
            },
            body: body && JSON.stringify(body),
            signal,
        });
    } catch (e) {
        if (e.name === 'AbortError') throw e;
        throw new ApiError('The server cannot be reached. Is it still running?', 0);
    }
    if (!response.ok) throw await refusal(response);
    return response;
}

export const ask = async (path, options) => (await request(path, options)).json();

// The data of each event of a stream, as they come. Throws when it ends before "[DONE]".
export async function* events(path, options) {
    const response = await request(path, options);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = '';
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) throw new ApiError('', 0);
            const parts = (waiting + value).split('\n\n');
            waiting = parts.pop();
            for (const part of parts) {
                if (!part.startsWith('data: ')) continue; // a comment, to keep proxies awake
                if (part === 'data: [DONE]') return;
                yield JSON.parse(part.slice('data: '.length));
            }
        }
    } catch (e) {
        if (e.name === 'AbortError') throw e;
        throw new ApiError('The connection broke before the answer was whole.', 0);
    } finally {
        reader.cancel().catch(() => {});
    }
}
