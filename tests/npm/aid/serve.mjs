// A running `cherenkov serve` on the packed demonstration model.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const program = `${process.env.B}/cherenkov`;
export const key = 'a key of this test';

// Resolves with {url, stop() -> exit status, remove()} once the server is ready. Clients must show
// `key`; flags are further ones.
export function serve(...flags) {
    const room = mkdtempSync(join(tmpdir(), 'cherenkov-'));
    writeFileSync(`${room}/keys`, `# of the test\n${key}\n`);
    execFileSync(program, ['pack', 'models/demo', '--output', `${room}/store`], { stdio: 'pipe' });
    const child = spawn(program, ['serve', `${room}/store`, '--listen', '127.0.0.1:0',
        '--control', 'none', '--api-key-file', `${room}/keys`, ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = new Promise((resolve) => child.on('exit', resolve));
    const server = {
        stop() {
            child.kill('SIGTERM');
            return ended;
        },
        remove() {
            child.kill('SIGKILL');
            rmSync(room, { recursive: true, force: true });
        },
    };
    return new Promise((resolve, reject) => {
        let said = '';
        ended.then((code) => {
            server.remove();
            reject(new Error(`the server ended with ${code}: ${said}`));
        });
        child.stderr.on('data', (data) => {
            said += data;
            const address = /listening on (http:\S+);/.exec(said);
            if (address && /cherenkov: ready/.test(said))
                resolve(Object.assign(server, { url: address[1] }));
        });
    });
}

// The server has nothing left to do, soon after a client has left.
export async function idle(url) {
    for (let i = 0; i < 200; i++) {
        const reply = await fetch(`${url}/v1/requests`, { headers: { 'x-api-key': key } });
        if ((await reply.json()).data.length === 0) return;
        await new Promise((r) => setTimeout(r, 25));
    }
    throw new Error('a request still runs');
}
