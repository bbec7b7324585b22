/** States and levels: a word, a shape, and how urgent. (DESIGN: colour is for what is not well) */

import { html, icon } from './html.js';
import { page } from './state.js';
import { ago, clock, seconds } from './words.js';

/** state → [icon, colour, order of urgency] */
const STATES = {
  stopped: ['stopped', 'now', 0], failed: ['stopped', 'now', 0], still: ['still', 'now', 0], silent: ['silent', 'now', 0],
  unknown: ['unknown', 'today', 1], behind: ['behind', 'today', 1],
  copying: ['copying', 'busy', 2], joining: ['copying', 'busy', 3], paused: ['paused', 'know', 3], waits: ['waits', 'quiet', 3],
  listed: ['new', 'quiet', 4], new: ['new', 'quiet', 4], ok: ['ok', 'ok', 9], followed: ['ok', 'ok', 9],
};
export const looks = (state) => STATES[state] ?? STATES.unknown;

/** level → [icon, words] */
export const LEVELS = {
  now: ['now', 'Now'], today: ['today', 'Today'], know: ['know', 'To know'], ok: ['ok', 'Well'], busy: ['copying', 'Copying'],
  new: ['new', 'New'], unknown: ['unknown', 'Not known'],
};
export const levelOf = (level) => LEVELS[level] ?? LEVELS.unknown;

/** The words of a table's states. */
export const TABLE_WORDS = { followed: 'followed', joining: 'joining', stopped: 'stopped', listed: 'no copy yet', copying: 'copying', unknown: 'not known' };

/** Nobody has looked for five intervals and 5 s. */
export const isOld = (iso) => seconds(iso) > 5 * page.doc.every_seconds + 5;

/** A part that nobody has looked at lately is not known, whatever it said last. */
export function stateOf(o) {
  const isSure = o.state === 'silent' || o.state === 'new' || !o.checked_at || !isOld(o.checked_at);
  return isSure ? o : { ...o, state: 'unknown', word: `not known; last looked ${ago(o.checked_at)}` };
}
export function badge(o) {
  const { state, word } = stateOf(o), [shape, colour] = looks(state);
  return html`<span class="state s-${colour}">${icon(shape)}${word ?? state}</span>`;
}
export function sign(o) {
  const [shape, colour] = looks(stateOf(o).state);
  return html`<span class="s-${colour}">${icon(shape)}</span>`;
}
const HOPS = { behind: 'today', unknown: 'today', still: 'now', stopped: 'now', failed: 'now', silent: 'now', waits: 'quiet', new: 'quiet', paused: 'quiet' };
/** The class of an arrow and of a box on the path; none where all is well. */
export const hopOf = (o) => HOPS[stateOf(o).state] ?? '';

/** A time as people read it, with all of it in its title. */
export const when = (iso, text) => html`<time datetime="${iso}" title="${iso.replace('T', ' ').replace('Z', ' UTC')}">${text ?? ago(iso)}</time>`;
export const sinceWords = (o) => o.since ? `since ${clock(o.since, false)}` : '';
