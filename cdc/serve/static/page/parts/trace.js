/** Question 9: where is this row. Places and times, never values; asked only when the reader asks. */

import { $, html, icon, put } from '../html.js';
import { page } from '../state.js';
import { when } from '../states.js';
import { clock } from '../words.js';

/** What a place has of the row → [icon, colour] */
const HAS = { 'has it': ['ok', 'ok'], 'as in the source': ['ok', 'ok'], 'another version': ['behind', 'today'], 'no row': ['new', 'quiet'], 'not known': ['unknown', 'today'] };

function place(p) {
  const [shape, colour] = HAS[p.state] ?? HAS['not known'];
  return html`<li><b>${p.place}</b><span class="state s-${colour}">${icon(shape)}${p.state}</span><span class="num">${p.committed_at ? when(p.committed_at, clock(p.committed_at)) : ''}</span><span class="where">${p.note}<span class="deep"> ${p.lsn}</span></span></li>`;
}
const say = (text) => put('trace-out', html`<p class="trace-head">${text}</p>`);
async function ask(form) {
  say('asks every part…');
  const answer = await fetch(`trace?${new URLSearchParams(new FormData(form))}`, { cache: 'no-store' }), told = await answer.json();
  if (answer.ok) put('trace-out', html`<p class="trace-head">The time is that of the commit up to which a place shows the source.</p><ol class="steps">${told.places.map(place)}</ol>`);
  else say(told.error);
}
export function watchTrace() {
  const form = $('trace-form');
  if (!form) return;
  form.addEventListener('submit', (e) => { e.preventDefault(); ask(form).catch(() => say('cdc serve does not answer.')); });
  form.addEventListener('focusin', () => put('table-names', Object.keys(page.doc?.tables ?? {}).map((name) => html`<option value="${name}">`)), { once: true });
}
