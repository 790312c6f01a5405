// What screen readers are told: states at once, a growing answer sentence by sentence.
import { byId } from './dom.js';

export const tell = (text) => { byId('status').textContent = text; };

// Says an answer as it grows; give it the whole text so far, and `ended` with the last.
export function speaker() {
    let said = 0;
    return (text, ended) => {
        const rest = text.slice(said);
        const end = ended ? rest.length : rest.search(/[.!?:]\s[^.!?:]*$|\n[^\n]*$/) + 1;
        if (end <= 0) return;
        said += end;
        byId('spoken').textContent = rest.slice(0, end).trim();
    };
}
