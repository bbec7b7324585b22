/** The grid of tables: 2 or 2,000, only what is seen is in the page. */

import { $, attribute, html, icon, NONE, put, spark } from '../html.js';
import { choices, page } from '../state.js';
import { badge, looks, TABLE_WORDS, when } from '../states.js';
import { count, plural, short, span } from '../words.js';
import { verified } from './followers.js';

const COLUMNS = [['urgency', 'State', 'w-state'], ['name', 'Table', 'w-name'], ['rows', 'Rows', 'w-rows num'], ['rate', 'Changes a minute', 'w-rate num'], ['last', 'Last change', 'w-last num'], ['verified', 'Verified', 'w-ver'], ['note', 'Note', '']];
const CHIPS = [['all', 'All', null], ['stopped', 'Stopped', 'stopped'], ['copying', 'Copying', 'copying'], ['joining', 'Joining', 'copying'], ['listed', 'No copy yet', 'new'], ['unknown', 'Not known', 'unknown'], ['held', 'Keys held', 'know'], ['followed', 'Followed', 'ok']];
const ROW = 40, ROW_ON_PHONE = 64, LONG = 30;

export const tableState = (t) => t.state ?? 'followed';
const chipOf = (t) => tableState(t) !== 'followed' ? t.state : t.held_keys ? 'held' : 'followed';
const rank = (t) => looks(tableState(t))[2] * 10 - (t.held_keys ? 45 : 0);
const rate = (t) => t.changes_per_minute ?? 0;
/** Never 100 before the copy has joined: the total is an estimate. */
export const donePercent = (c) => c.all_rows ? Math.min(Math.floor((c.done_rows ?? 0) / c.all_rows * 100), c.is_estimate === false ? 100 : 99) : 0;

const ORDERS = {
  urgency: (a, b) => rank(a) - rank(b) || rate(b) - rate(a), name: () => 0, rows: (a, b) => (b.rows ?? -1) - (a.rows ?? -1), rate: (a, b) => rate(b) - rate(a),
  last: (a, b) => Date.parse(b.changed_at ?? 0) - Date.parse(a.changed_at ?? 0), verified: (a, b) => (a.verified_at ?? '').localeCompare(b.verified_at ?? ''),
};

let names = [], orderedBy = '', isInside = false;
/** Rows keep their places while pointer or focus is in the grid. */
export function watchGrid() {
  const box = $('scroller');
  for (const [event, value] of [['pointerenter', true], ['pointerleave', false], ['focusin', true], ['focusout', false]]) box.addEventListener(event, () => { isInside = value; });
  box.addEventListener('scroll', () => requestAnimationFrame(() => page.doc && paintTables()), { passive: true });
}

function matches(name, t, words) {
  if (choices.chip !== 'all' && chipOf(t) !== choices.chip) return false;
  const text = `${name} ${t.reason ?? ''}`.toLowerCase(), held = t.in ?? Object.keys(page.doc.followers);
  return words.every((w) => w.startsWith('in:') ? held.includes(w.slice(3)) : text.includes(w) || chipOf(t) === w);
}
function order(all) {
  const key = [choices.filter, choices.chip, choices.sort, choices.up].join('|');
  if (key === orderedBy && isInside) return;
  const words = choices.filter.toLowerCase().split(/\s+/).filter(Boolean), by = ORDERS[choices.sort];
  const sorted = all.filter(([name, t]) => matches(name, t, words)).sort(([x, a], [y, b]) => by(a, b) || (x < y ? -1 : 1));
  if (!choices.up) sorted.reverse();
  names = sorted.map(([name]) => name);
  if (key !== orderedBy) $('scroller').scrollTop = 0;
  orderedBy = key;
}

function note(t) {
  if (t.copy) return html`<span class="copying-note"><progress max="100" value="${donePercent(t.copy)}" aria-label="copied"></progress><span>${t.copy.is_estimate === false ? '' : 'about '}${donePercent(t.copy)} %${t.copy.seconds_left != null ? `, ${span(t.copy.seconds_left)} left` : ''}</span></span>`;
  if (t.state === 'stopped' || t.reason) return t.reason;
  if (t.state === 'joining') return 'copied; applies the changes since';
  if (t.state === 'listed') return html`<span class="dim">waits for its copy</span>`;
  if (t.held_keys) return html`<span class="s-know">${icon('know')}</span> ${plural(t.held_keys, 'key')} held (${plural(t.letters, 'message')})`;
  return t.history ? html`<span class="dim">history kept</span>` : '';
}
const isEstimated = (t) => t.is_estimate || ['copying', 'listed'].includes(t.state);
const rows = (t) => t.rows == null ? NONE : isEstimated(t) ? `about ${short(t.rows)}` : count(t.rows);
function row(name, i) {
  const t = page.doc.tables[name], dot = name.indexOf('.') + 1, state = tableState(t);
  return html`<tr data-open="table:${name}" data-key="${name}" aria-rowindex="${i + 2}"><td class="c-state">${badge({ state, word: TABLE_WORDS[state] })}</td>
    <td class="c-name"><button type="button" class="rowname" data-open="table:${name}"><span>${name.slice(0, dot)}</span>${name.slice(dot)}</button></td><td class="c-rows num">${rows(t)}</td>
    <td class="c-rate num">${t.changes_per_minute == null ? NONE : t.changes_per_minute ? count(t.changes_per_minute) : html`<span class="dim">0</span>`} ${t.day?.length ? spark(t.day) : html`<span class="spark"></span>`}</td><td class="c-last num">${t.changed_at ? when(t.changed_at) : NONE}</td>
    <td class="c-ver">${verified(t)}</td><td class="c-note"${attribute('title', t.reason)}>${note(t)}</td></tr>`;
}

export function paintTables() {
  const all = Object.entries(page.doc.tables);
  order(all);
  const shown = names.filter((name) => name in page.doc.tables);
  paintChips(all);
  $('tables-sub').textContent = shown.length === all.length ? `${plural(all.length, 'table')}; what needs you first, then the busiest` : `${count(shown.length)} of ${plural(all.length, 'table')}`;
  paintGrid(shown);
  put('held', !all.length ? 'cdc.yaml lists no tables.' : !shown.length ? html`No table matches. <button type="button" data-do="clear">Show all ${count(all.length)}</button>` : '');
}
function paintChips(all) {
  const kinds = { all: all.length };
  for (const [, t] of all) kinds[chipOf(t)] = (kinds[chipOf(t)] ?? 0) + 1;
  const colour = (k) => k === 'held' ? 'know' : looks(k)[1];
  put('chips', CHIPS.filter(([k]) => kinds[k] || k === choices.chip || k === 'all').map(([k, name, shape]) => html`<button type="button" data-do="chip" data-v="${k}" aria-pressed="${k === choices.chip}">${shape ? html`<span class="s-${colour(k)}">${icon(shape)}</span>` : ''}${name} <b>${count(kinds[k] ?? 0)}</b></button>`));
}
function columnHead([id, name, cls]) {
  if (id === 'note') return html`<th scope="col"><span class="sr">${name}</span></th>`;
  const isText = id === 'name' || id === 'urgency', direction = choices.sort === id ? isText === choices.up ? 'ascending' : 'descending' : null;
  return html`<th scope="col" class="${cls}"${attribute('aria-sort', direction)}><button type="button" class="sortable" data-do="sort" data-v="${id}">${name}</button></th>`;
}
function paintGrid(shown) {
  const box = $('scroller'), isLong = shown.length > LONG, height = matchMedia('(max-width:760px)').matches ? ROW_ON_PHONE : ROW;
  box.classList.toggle('long', isLong);
  const from = isLong ? Math.max(Math.floor(box.scrollTop / height) - 8, 0) : 0;
  const to = isLong ? Math.min(from + Math.ceil((box.clientHeight || 620) / height) + 18, shown.length) : shown.length;
  const pad = (key) => html`<tr class="pad" aria-hidden="true" data-key="${key}"><td colspan="7"></td></tr>`;
  put('grid', html`<thead><tr>${COLUMNS.map(columnHead)}</tr></thead><tbody>${pad('top')}${shown.slice(from, to).map((name, i) => row(name, from + i))}${pad('end')}</tbody>`);
  $('grid').setAttribute('aria-rowcount', shown.length + 1);
  const [top, end] = $('grid').querySelectorAll('.pad > td');
  top.style.height = `${from * height}px`;
  end.style.height = `${(shown.length - to) * height}px`;
}
