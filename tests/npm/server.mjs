// The server against the libraries that its users have: `openai`, `@anthropic-ai/sdk`, `ollama`,
// and `ai` with its OpenAI-compatible provider and that of OpenAI's responses. The packed demonstration model answers; greedy, so
// that what it says is known.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { idle, key, serve } from './aid/serve.mjs';

const require = createRequire(`${process.env.NPM_ROOT}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const hello = [{ role: 'user', content: 'Hello!' }];
const greeting = 'Hello! Shall I tell you a story?';
const story = [{ role: 'user', content: 'Tell me a story.' }];

async function collect(stream) {
    const all = [];
    for await (const piece of stream) all.push(piece);
    return all;
}

// Rejects with an error of this status whose message says this.
async function refused(promise, status, says) {
    await assert.rejects(promise, (e) => {
        const found = e.status ?? e.statusCode ?? e.status_code;
        assert.equal(found, status, `${e}`);
        assert.match(`${e.message} ${e.responseBody ?? ''}`, says);
        return true;
    });
}

async function openai(url) {
    const { default: OpenAI } = await load('openai');
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    const model = 'cherenkov';
    const one = (rest) => client.chat.completions.create({
        model, messages: hello, temperature: 0, ...rest });

    assert.equal((await client.models.list()).data[0].id, model);
    assert.equal((await client.models.retrieve(model)).id, model);
    const whole = await one({});
    assert.equal(whole.choices[0].message.content, greeting);
    assert.equal(whole.choices[0].finish_reason, 'stop');
    assert.equal(whole.usage.total_tokens,
        whole.usage.prompt_tokens + whole.usage.completion_tokens);

    const chunks = await collect(await one({
        stream: true, stream_options: { include_usage: true } }));
    const text = (list) => list.map((c) => c.choices[0]?.delta.content ?? '').join('');
    assert.equal(text(chunks), greeting);
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.equal(chunks.at(-2).choices[0].finish_reason, 'stop');
    assert.deepEqual(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);

    const helped = client.chat.completions.stream({ model, messages: hello, temperature: 0 });
    assert.equal(await helped.finalContent(), greeting);

    const several = await one({ n: 2, max_tokens: 3, temperature: 1, seed: 3 });
    assert.deepEqual(several.choices.map((c) => c.index), [0, 1]);
    assert.equal(several.choices[0].finish_reason, 'length');
    const stopped = await one({ stop: ['tell', 'never'] });
    assert.equal(stopped.choices[0].message.content, 'Hello! Shall I ');
    const likely = (await one({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content;
    assert.equal(likely.map((t) => t.token).join(''), greeting);
    assert.equal(likely[0].top_logprobs.length, 2);
    assert.equal(likely[0].top_logprobs[0].token, likely[0].token);
    const developer = await one({ messages: [
        { role: 'system', content: 'You tell stories.' }, ...hello,
        { role: 'developer', content: [{ type: 'text', text: 'Be brief.' }] }] });
    assert.equal(developer.choices[0].finish_reason, 'stop');
    const thought = await one({ reasoning_effort: 'low', max_tokens: 8 });
    assert.ok(thought.choices[0].message.reasoning_content.length > 0);
    assert.equal(thought.choices[0].message.content, '');

    const raw = await client.completions.create({
        model, prompt: 'Once upon a time', max_tokens: 12, temperature: 0, echo: true });
    assert.match(raw.choices[0].text, /^Once upon a time, there was /);

    const wrong = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    await refused(wrong.models.list(), 401, /API key/);
    await refused(one({ temperature: 3 }), 400, /temperature: want a number from 0 to 2/);
    await refused(one({ temprature: 1 }), 400, /temprature: there is no such field/);
    await refused(one({ model: 'gpt-5' }), 404, /there is no model 'gpt-5'/);
    await refused(one({ messages: [{ role: 'user', content: [
        { type: 'image_url', image_url: { url: 'data:' } }] }] }), 400, /image_url/);
    await refused(one({ messages: [{ role: 'user', content: 'word '.repeat(9000) }] }), 400,
        /context/);

    const long = await one({ messages: story, stream: true, ignore_eos: true });
    for await (const chunk of long) if (chunk.choices[0]?.delta.content) break;
    long.controller.abort();
    await idle(url);
    const stopping = new AbortController();
    const cut = client.chat.completions.create({ model, messages: story, ignore_eos: true },
        { signal: stopping.signal });
    setTimeout(() => stopping.abort(), 50);
    await assert.rejects(cut);
    await idle(url);
}

async function responses(url) {
    const { default: OpenAI } = await load('openai');
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    const ask = { model: 'cherenkov', input: 'Hello!', temperature: 0 };
    const whole = await client.responses.create(ask);
    assert.equal(whole.output_text, greeting);
    assert.equal(whole.status, 'completed');
    assert.equal(whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens);

    const events = await collect(await client.responses.create({ ...ask, stream: true }));
    assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
    assert.deepEqual(events.slice(0, 4).map((e) => e.type), ['response.created',
        'response.in_progress', 'response.output_item.added', 'response.content_part.added']);
    assert.deepEqual(events.slice(-4).map((e) => e.type), ['response.output_text.done',
        'response.content_part.done', 'response.output_item.done', 'response.completed']);
    const helped = client.responses.stream(ask);
    assert.equal((await helped.finalResponse()).output_text, greeting);
    const thought = client.responses.stream({
        ...ask, reasoning: { effort: 'low' }, max_output_tokens: 8 });
    const final = await thought.finalResponse();
    assert.equal(final.status, 'incomplete');
    assert.ok(final.output[0].content[0].text.length > 0);

    assert.deepEqual((await client.responses.retrieve(whole.id)).output, whole.output);
    const next = await client.responses.create({
        ...ask, input: 'Yes.', previous_response_id: whole.id });
    const same = await client.responses.create({ ...ask, store: false, input: [
        ...hello, ...whole.output, { role: 'user', content: 'Yes.' }] });
    assert.equal(next.output_text, same.output_text);
    await client.responses.delete(whole.id);
    await refused(client.responses.retrieve(whole.id), 404, /not any more/);
    await refused(client.responses.create({ ...ask, previous_response_id: whole.id }), 400,
        /previous_response_id/);
    await refused(client.responses.create({ ...ask, background: true }), 400, /background/);
    await refused(client.responses.create({ ...ask, tools: [{ type: 'image_generation' }] }), 400,
        /tools\[0\]\.type/);

    const long = await client.responses.create({ ...ask, stream: true, ignore_eos: true });
    for await (const e of long) if (e.type === 'response.output_text.delta') break;
    long.controller.abort();
    await idle(url);
}

async function anthropic(url) {
    const { default: Anthropic } = await load('@anthropic-ai/sdk');
    const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
    const model = 'cherenkov';
    const ask = { model, max_tokens: 40, temperature: 0, messages: hello };
    for (const m of await collect(await client.models.list()))
        assert.deepEqual([m.id, m.type, m.display_name], [model, 'model', model]);
    const whole = await client.messages.create(ask);
    assert.equal(whole.content[0].text, greeting);
    assert.equal(whole.stop_reason, 'end_turn');
    assert.ok(whole.usage.output_tokens > 0);

    const stream = client.messages.stream({ ...ask, system: [
        { type: 'text', text: 'You tell stories.', cache_control: { type: 'ephemeral' } }] });
    const seen = (await collect(stream)).map((e) => e.type);
    assert.equal(seen[0], 'message_start');
    assert.equal(seen[1], 'content_block_start');
    assert.deepEqual(seen.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
    assert.equal((await stream.finalMessage()).stop_reason, 'end_turn');

    const short = await client.messages.create({ ...ask, stop_sequences: ['tell'] });
    assert.equal(short.stop_reason, 'stop_sequence');
    assert.equal(short.stop_sequence, 'tell');
    const thought = await client.messages.create({
        ...ask, temperature: 1, max_tokens: 6, thinking: { type: 'enabled', budget_tokens: 1024 } });
    assert.equal(thought.content[0].type, 'thinking');
    assert.equal(thought.stop_reason, 'max_tokens');
    const count = await client.messages.countTokens({ model, messages: hello });
    assert.equal(count.input_tokens,
        whole.usage.input_tokens + whole.usage.cache_read_input_tokens);

    const wrong = new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 });
    await refused(wrong.messages.create(ask), 401, /authentication_error/);
    await refused(client.messages.create({ ...ask, top_p: 2 }), 400, /top_p/);
    await refused(client.messages.create({ ...ask, messages: [{ role: 'user', content: [
        { type: 'image', source: { type: 'url', url: 'http://localhost/' } }] }] }), 400, /image/);
    const long = client.messages.stream({ ...ask, max_tokens: 3000, messages: story });
    for await (const event of long) if (event.type === 'content_block_delta') break;
    long.abort();
    await idle(url);
}

async function ollama(url) {
    const { Ollama } = await load('ollama');
    const client = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
    const model = 'cherenkov';
    const options = { temperature: 0 };
    assert.equal((await client.list()).models[0].name, 'cherenkov:latest');
    assert.ok((await client.show({ model })).capabilities.includes('completion'));
    const whole = await client.chat({ model, messages: hello, options });
    assert.equal(whole.message.content, greeting);
    assert.equal(whole.done_reason, 'stop');
    const pieces = await collect(await client.chat({
        model, messages: hello, options, stream: true }));
    assert.equal(pieces.map((p) => p.message.content).join(''), greeting);
    assert.ok(pieces.at(-1).done && pieces.at(-1).eval_count > 0);
    const generated = await client.generate({ model, prompt: 'Hello!', options });
    assert.equal(generated.response, greeting);
    const raw = await client.generate({
        model, prompt: 'Once upon a time', raw: true, options: { ...options, num_predict: 5 } });
    assert.match(raw.response, /^, there was /);
    assert.equal(raw.done_reason, 'length');
    const thought = await client.chat({
        model, messages: hello, think: true, options: { ...options, num_predict: 6 } });
    assert.ok(thought.message.thinking.length > 0);
    await refused(client.chat({ model: 'other', messages: hello }), 404, /no model/);
    await refused(client.chat({ model, messages: hello, options: { mirostat: 2 } }), 400,
        /mirostat/);
    const long = await client.generate({ model, prompt: 'Tell me a story.', stream: true });
    for await (const piece of long) if (piece.response) break;
    long.abort();
    await idle(url);
}

async function vercel(url) {
    const { generateText, streamText } = await load('ai');
    const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
    const provider = createOpenAICompatible({
        name: 'cherenkov', baseURL: `${url}/v1`, apiKey: key, includeUsage: true });
    const ask = { model: provider('cherenkov'), temperature: 0, maxRetries: 0, prompt: 'Hello!' };
    const whole = await generateText(ask);
    assert.equal(whole.text, greeting);
    assert.equal(whole.finishReason, 'stop');
    const stream = streamText(ask);
    assert.equal((await collect(stream.textStream)).join(''), greeting);
    assert.ok((await stream.usage).outputTokens > 0);
    const thought = await generateText({
        ...ask, maxOutputTokens: 8, providerOptions: { cherenkov: { reasoningEffort: 'low' } } });
    assert.ok(thought.reasoningText.length > 0);
    await refused(generateText({ ...ask, model: provider('other') }), 404, /no model/);
    const stopping = new AbortController();
    const long = streamText({ ...ask, prompt: 'Tell me a story.', abortSignal: stopping.signal,
        onError: () => {} });
    for await (const piece of long.textStream) if (piece) { stopping.abort(); break; }
    await idle(url);
}

async function vercelResponses(url) {
    const { generateText, streamText } = await load('ai');
    const { createOpenAI } = await load('@ai-sdk/openai');
    let sent;
    const provider = createOpenAI({ baseURL: `${url}/v1`, apiKey: key, fetch: (where, how) => {
        sent = how.body;
        return fetch(where, how);
    } });
    const ask = { model: provider('cherenkov'), temperature: 0, maxRetries: 0, prompt: 'Hello!' };
    const whole = await generateText(ask);
    assert.equal(whole.text, greeting);
    assert.equal(whole.finishReason, 'stop');
    const stream = streamText(ask);
    assert.equal((await collect(stream.textStream)).join(''), greeting);
    assert.ok((await stream.usage).outputTokens > 0);
    // Its own turns it sends as references to stored items.
    const more = [{ role: 'user', content: 'Yes.' }];
    const next = await generateText({ ...ask, prompt: undefined,
        messages: [...hello, ...whole.response.messages, ...more] });
    assert.match(sent, /item_reference/);
    const same = await generateText({ ...ask, prompt: undefined,
        messages: [...hello, { role: 'assistant', content: greeting }, ...more] });
    assert.equal(next.text, same.text);
    const thought = await generateText({ ...ask, maxOutputTokens: 8, providerOptions: { openai: {
        forceReasoning: true, reasoningEffort: 'low', reasoningSummary: 'auto' } } });
    assert.ok(thought.reasoningText.length > 0);
    assert.equal(thought.finishReason, 'length');
    await refused(generateText({ ...ask, model: provider('other') }), 404, /no model/);
}

// What answers are held to: schemas, required calls, budgets of thinking, as each library asks.
const person = {
    type: 'object',
    properties: {
        name: { enum: ['Ann', 'Bob'] },
        age: { type: 'integer', minimum: 1, maximum: 99 },
        tags: { type: 'array', maxItems: 2, items: { type: 'string', maxLength: 4 } },
    },
    required: ['name', 'age', 'tags'],
    additionalProperties: false,
};
const turn = {
    type: 'object',
    properties: { way: { enum: ['left', 'right'] }, degrees: { type: 'integer', maximum: 180 } },
    required: ['way', 'degrees'],
    additionalProperties: false,
};

function checkPerson(v) {
    assert.deepEqual(Object.keys(v), ['name', 'age', 'tags']);
    assert.ok(['Ann', 'Bob'].includes(v.name) && v.age >= 1 && v.age <= 99 && v.tags.length <= 2);
}

function checkTurn(v) {
    assert.deepEqual(Object.keys(v), ['way', 'degrees']);
    assert.ok(['left', 'right'].includes(v.way) && v.degrees <= 180);
}

async function heldOpenai(url) {
    const { default: OpenAI } = await load('openai');
    const { zodResponseFormat } = await load('openai/helpers/zod');
    const { z } = await load('zod');
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    const ask = { model: 'cherenkov', messages: hello, seed: 3 };
    const schema = z.object({
        name: z.enum(['Ann', 'Bob']), age: z.int().min(1).max(99),
        tags: z.array(z.string().max(4)).max(2) });
    const parsed = await client.chat.completions.parse({
        ...ask, response_format: zodResponseFormat(schema, 'person') });
    checkPerson(parsed.choices[0].message.parsed);
    assert.equal(parsed.choices[0].finish_reason, 'stop');
    const cut = await client.chat.completions.create({
        ...ask, max_tokens: 6, response_format: { type: 'json_object' } });
    assert.equal(cut.choices[0].finish_reason, 'length');
    const word = await client.chat.completions.create({
        ...ask, grammar: 'root ::= "yes" | "no"', reasoning_effort: 'low', thinking_budget: 4 });
    assert.match(word.choices[0].message.content, /^(yes|no)$/);
    assert.match(word.choices[0].message.reasoning_content, /the answer follows\.$/);
    const tools = [{ type: 'function', function: { name: 'turn', strict: true, parameters: turn } },
        { type: 'function', function: { name: 'halt' } }];
    for (const tool_choice of ['required', { type: 'function', function: { name: 'turn' } }]) {
        const called = await client.chat.completions.create({
            ...ask, tools, tool_choice, parallel_tool_calls: false });
        const [call, ...more] = called.choices[0].message.tool_calls;
        assert.equal(called.choices[0].finish_reason, 'tool_calls');
        assert.equal(more.length, 0);
        if (call.function.name === 'turn') checkTurn(JSON.parse(call.function.arguments));
    }
    const stream = client.chat.completions.stream({
        ...ask, tools: tools.slice(0, 1), tool_choice: 'required', parallel_tool_calls: false });
    const final = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
    checkTurn(JSON.parse(final.function.arguments));
    await refused(client.chat.completions.create({
        ...ask, response_format: { type: 'json_schema', json_schema: {
            name: 'n', strict: true, schema: { type: 'string', pattern: 'a' } } } }), 400,
        /pattern cannot be kept to/);
}

async function heldAnthropic(url) {
    const { default: Anthropic } = await load('@anthropic-ai/sdk');
    const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
    const ask = { model: 'cherenkov', max_tokens: 200, messages: hello };
    const whole = await client.messages.create({
        ...ask, output_config: { format: { type: 'json_schema', schema: person } } });
    checkPerson(JSON.parse(whole.content[0].text));
    const called = await client.messages.create({
        ...ask, tools: [{ name: 'turn', input_schema: turn }],
        tool_choice: { type: 'any', disable_parallel_tool_use: true } });
    assert.equal(called.stop_reason, 'tool_use');
    checkTurn(called.content[0].input);
    const thought = await client.messages.create({
        ...ask, max_tokens: 1100, thinking: { type: 'enabled', budget_tokens: 1024 },
        output_config: { format: { type: 'json_schema', schema: { const: 1 } } } });
    assert.equal(thought.content[0].type, 'thinking');
}

async function heldOllama(url) {
    const { Ollama } = await load('ollama');
    const client = new Ollama({ host: url, headers: { Authorization: `Bearer ${key}` } });
    const chat = await client.chat({
        model: 'cherenkov', messages: hello, format: person, options: { seed: 5 } });
    checkPerson(JSON.parse(chat.message.content));
    const cut = await client.generate({
        model: 'cherenkov', prompt: 'Hello!', format: 'json', options: { num_predict: 6 } });
    assert.equal(cut.response.trim()[0], '{');
}

async function heldVercel(url) {
    const { generateObject, generateText, jsonSchema, tool } = await load('ai');
    const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
    const provider = createOpenAICompatible({
        name: 'cherenkov', baseURL: `${url}/v1`, apiKey: key, supportsStructuredOutputs: true });
    const ask = { model: provider('cherenkov'), maxRetries: 0, prompt: 'Hello!', seed: 2 };
    checkPerson((await generateObject({ ...ask, schema: jsonSchema(person) })).object);
    const called = await generateText({
        ...ask, toolChoice: 'required', tools: { turn: tool({ inputSchema: jsonSchema(turn) }) },
        providerOptions: { cherenkov: { parallel_tool_calls: false } } });
    checkTurn(called.toolCalls[0].input);
    assert.equal(called.finishReason, 'tool-calls');
}

const server = await serve();
try {
    for (const client of [openai, responses, anthropic, ollama, vercel, vercelResponses,
        heldOpenai, heldAnthropic, heldOllama, heldVercel]) {
        await client(server.url);
        console.log(`${client.name}: fine`);
    }
    assert.equal(await server.stop(), 0);
} finally {
    server.remove();
}
