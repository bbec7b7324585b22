/** Question 9: where is this row. Places and times, never values; asked only when the reader asks. */

import { $, html, put } from '../html.js';
import { page } from '../state.js';
import { when } from '../states.js';
import { clock } from '../words.js';

/** What each step waited for is the one before it; all followers wait for the lake. */
function bar(steps, i, end) {
  const before = i ? steps[Math.min(i, steps.findIndex((s) => s.part === 'lake') + 1 || i) - 1]?.after_seconds ?? 0 : 0, scale = (s) => s / end * 98;
  return html`<svg class="gantt" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect x="${scale(before).toFixed(1)}" width="${Math.max(scale((steps[i].after_seconds ?? before) - before), 1).toFixed(1)}" height="10"/></svg>`;
}
function show(t) {
  const end = Math.max(...t.steps.map((s) => s.after_seconds ?? 0), 0.5);
  const time = (s, i) => !i && s.at ? clock(s.at, false) : s.after_seconds != null ? `+${s.after_seconds.toFixed(2)} s` : '';
  put('trace-out', html`<p class="trace-head">${t.said ?? ''}${t.committed_at ? html` Committed ${when(t.committed_at, clock(t.committed_at))}.` : ''}<span class="deep"> ${t.lsn}</span></p><ol class="steps">${t.steps.map((s, i) => html`<li><span>${s.word}</span>${bar(t.steps, i, end)}<span class="num">${time(s, i)}</span><span class="where">${s.where}</span></li>`)}</ol>`);
}
async function ask(form) {
  const query = new URLSearchParams(new FormData(form));
  put('trace-out', html`<p class="trace-head">asks every part…</p>`);
  const answer = await fetch(`trace?${query}`, { cache: 'no-store' }), told = await answer.json();
  if (answer.ok) show(told); else put('trace-out', html`<p class="trace-head">${told.error}</p>`);
}
export function watchTrace() {
  const form = $('trace-form');
  if (!form) return;
  form.addEventListener('submit', (e) => { e.preventDefault(); ask(form).catch(() => put('trace-out', html`<p class="trace-head">cdc serve does not answer.</p>`)); });
  form.addEventListener('focusin', () => put('table-names', Object.keys(page.doc?.tables ?? {}).map((name) => html`<option value="${name}">`)), { once: true });
}
