/** Question 4: where is it stuck, and what only waits for that. */

import { html, icon, put } from '../html.js';
import { byOrder, page } from '../state.js';
import { badge, hopOf, looks, sign, sinceWords, stateOf } from '../states.js';
import { HOUR, plural, span } from '../words.js';

export const isFilling = () => page.doc.slot.full_in_seconds != null && page.doc.slot.full_in_seconds < 6 * HOUR;

const box = (hop) => ['now', 'today', 'quiet'].includes(hop) ? hop : '';
/** What a step adds is known while it works. */
const added = (o) => o.hop_seconds != null && ['ok', 'behind'].includes(stateOf(o).state) ? `+${span(o.hop_seconds)}` : '';
const arrow = (o) => html`<li class="hop ${hopOf(o)}" aria-hidden="true">${added(o)}</li>`;

function station([id, p]) {
  const full = id === 'source' && isFilling() ? html`<span class="extra s-today">${icon('today')}<span>slot full in ${span(page.doc.slot.full_in_seconds)}</span></span>` : '';
  return html`<li><button type="button" class="station ${box(hopOf(p))}" data-open="part:${id}"><span class="kind">${p.kind}${p.is_cause ? html`<span class="cause">the cause</span>` : ''}</span><span class="name">${p.name}</span>${badge(p)}<span class="line2">${p.line}</span>${full}</button></li>`;
}

/** One follower behind the fork: its time, or its state; a line below. */
function branch({ open, name, kind, o, main, line }) {
  return html`<li><span class="hop ${hopOf(o)}" aria-hidden="true">${added(o)}</span><button type="button" class="station ${box(hopOf(o))}" data-open="${open}"><span><span class="name">${sign(o)}${name}</span><span class="kind">${kind}</span></span><span class="seen"><b>${main}</b>${line}</span></button></li>`;
}
function followerBranch([name, f]) {
  const { state, word } = stateOf(f), isWell = state === 'ok' && f.p50_seconds != null;
  const main = isWell ? span(f.p50_seconds) : state === 'behind' && f.behind_seconds != null ? `${span(f.behind_seconds)} behind` : word;
  const line = isWell ? `p99 ${span(f.p99_seconds)}` : f.trend ?? sinceWords(f);
  return branch({ open: `follower:${name}`, name, kind: f.what, o: f, main, line });
}
function viewsBranch(views) {
  const worst = [...views].sort((a, b) => looks(stateOf(a).state)[2] - looks(stateOf(b).state)[2])[0], state = stateOf(worst);
  const shown = Math.max(...views.map((v) => v.shows_seconds ?? -1));
  const isWell = state.state === 'ok' && shown >= 0;
  return branch({ open: 'section:views', name: plural(views.length, 'view'), kind: 'SQL, in the lake', o: worst, main: isWell ? span(shown) : state.word, line: isWell ? 'at most' : worst.trend ?? sinceWords(worst) });
}

export function paintPath() {
  const views = Object.values(page.doc.views), followers = byOrder(page.doc.followers).filter(([, f]) => f.kind !== 'delta');
  const parts = byOrder(page.doc.parts).map((p, i) => [i ? arrow(p[1]) : '', station(p)]);
  const fork = [...followers.map(followerBranch), views.length ? viewsBranch(views) : ''];
  put('path', html`<div class="path-head"><h2>The path of a change</h2><p class="sub">What each step adds, and how long after the commit a follower’s readers see it</p></div><ol class="path">${parts}${followers.length || views.length ? html`<li><ol class="fork">${fork}</ol></li>` : ''}</ol>`);
}
