/** Question 7, its first and third grid: followers and views. */

import { grid, head, html, NONE, put, spark } from '../html.js';
import { byOrder, page } from '../state.js';
import { badge, stateOf, when } from '../states.js';
import { bytes, clock, count, DAY, seconds, span } from '../words.js';

export function lag(f) {
  if (f.state === 'new') return NONE;
  if (f.state === 'ok' && !f.changes_waiting) return html`<span class="dim">nothing to do</span>`;
  return html`<b>${span(f.behind_seconds)}</b>`;
}
const isCatchingUp = (f) => f.caught_up_in_seconds != null;
const since = (o) => o.since ? html`since ${when(o.since, seconds(o.since) < DAY ? clock(o.since, false) : span(seconds(o.since)))}` : '';

function stateCell(f) {
  const state = stateOf(f), word = state.state === 'behind' ? 'behind' : state.word;
  return html`<td data-h="State" class="duo">${badge({ ...state, word })}<small>${f.trend && f.state !== 'ok' ? f.trend : since(f)}</small></td>`;
}
function lagCell(f) {
  const deep = [f.bytes_waiting ? bytes(f.bytes_waiting) : null, f.lsn].filter(Boolean).join(' ');
  return html`<td data-h="Behind by" class="num duo">${lag(f)}<small>${f.changes_waiting ? `${count(f.changes_waiting)} changes` : ''}<span class="deep">${f.changes_waiting && deep ? ', ' : ''}${deep}</span></small></td>`;
}
const goal = () => `Within ${page.doc.pipeline.goal_seconds} s, 24 h`;
function row([name, f]) {
  return html`<tr data-open="follower:${name}" data-key="${name}"><td class="lead duo"><button type="button" class="rowname" data-open="follower:${name}">${name}</button><small>${f.what}</small></td>
    ${stateCell(f)}${lagCell(f)}
    <td data-h="Caught up in" class="num ${isCatchingUp(f) ? '' : 'off'}">${isCatchingUp(f) ? html`<b>${span(f.caught_up_in_seconds)}</b>` : NONE}</td>
    <td data-h="Arrives, applies" class="num duo">${f.arrives_per_second == null ? NONE : html`${count(f.arrives_per_second)} → ${count(f.applies_per_second)}<small>changes a second</small>`}</td>
    <td data-h="Seen after" class="num duo">${f.p50_seconds == null ? NONE : html`${span(f.p50_seconds)}<small>p99 ${span(f.p99_seconds)}</small>`}</td>
    <td data-h="${goal()}" class="num">${f.kept_goal_ratio == null ? NONE : `${(f.kept_goal_ratio * 100).toFixed(2)} %`}</td>
    <td data-h="24 h" class="num">${spark(f.day)}</td></tr>`;
}
export function paintFollowers() {
  put('followers', html`${head('followers', 'Followers', 'Each holds the tables as of one commit. Behind is counted from the oldest commit that it lacks.')}${grid(['Follower', 'State', '>Behind by', '>Caught up in', '>Arrives → applies', '>Seen after', `>${goal()}`, '>24 h'], byOrder(page.doc.followers).map(row))}`);
}

const withoutSchema = (name) => name.replace('public.', '');
export const verified = (o) => o.verified_at ? html`${o.verdict}, ${when(o.verified_at)}` : html`<span class="dim">not yet</span>`;
function viewRow([name, v]) {
  const dot = name.indexOf('.') + 1, keptUp = v.groups_per_minute != null ? `${count(v.groups_per_minute)} rows anew a minute` : '';
  return html`<tr data-open="view:${name}" data-key="${name}"><td class="lead duo"><button type="button" class="rowname" data-open="view:${name}"><span>${name.slice(0, dot)}</span>${name.slice(dot)}</button><small>${v.tables ? `of ${v.tables.map(withoutSchema).join(', ')}` : ''}</small></td><td data-h="State" class="duo">${badge(v)}<small>${v.why}</small></td><td data-h="Rows" class="num">${count(v.rows)}</td>
    <td data-h="Shows commits after" class="num">${span(v.shows_seconds)}</td><td data-h="How" class="duo">${v.how}<small>${keptUp}</small></td>
    <td data-h="Came late" class="num">${v.late ? html`${count(v.late)}<span class="dim"> late</span>` : NONE}</td><td data-h="Held by">${v.in?.length ? v.in.join(', ') : html`<span class="dim">the lake alone</span>`}</td><td data-h="Verified" class="num">${verified(v)}</td></tr>`;
}
const NO_VIEWS = html`<div class="empty">No views. A view is one SELECT in <code>cdc.yaml</code>, under <code>views:</code>; <code>cdc bootstrap</code> fills it.</div>`;
export function paintViews() {
  const rows = byOrder(page.doc.views).map(viewRow);
  put('views', html`${head('views', 'Views', 'A view at a cut is its statement over the tables at that cut.')}${rows.length ? grid(['View', 'State', '>Rows', '>Shows commits after', 'Kept up', '>Late', 'Held by', '>Verified'], rows) : NO_VIEWS}`);
}
