/** Question 6: what bites next. The time until the slot is full, and a chart that runs into the future. */

import { $, html, icon, put } from '../html.js';
import { page } from '../state.js';
import { when } from '../states.js';
import { bytes, clock, DAY, day, HOUR, span, zone } from '../words.js';
import { across, axis, base, cursor, down, ink, lastKnown, px, timeAxis, write } from './drawing.js';

const GIB = 2 ** 30, SOON = 1800, AHEAD = 20;

function levelOf(s) {
  if (s.full_in_seconds == null) return 'ok';
  return s.full_in_seconds < SOON ? 'now' : s.full_in_seconds < 6 * HOUR ? 'today' : 'know';
}
const isLost = (s) => s.wal_status === 'lost';
const isOver = (s) => s.limit_bytes && s.safe_bytes != null && s.safe_bytes <= 0;
/** A slot that moves on, one that fills, one that is not there, one whose WAL is gone. */
function heading(s) {
  if (s.state === 'new') return html`<p class="big s-quiet">${icon('new')}no slot yet</p>`;
  if (isLost(s)) return html`<p class="big s-now">${icon('stopped')}lost</p>`;
  if (s.retained_bytes == null) return html`<p class="big s-quiet">${icon('unknown')}not known</p>`;
  if (isOver(s)) return html`<p class="big s-now">${icon('now')}above its limit</p>`;
  const level = levelOf(s);
  return s.full_in_seconds != null ? html`<p class="big s-${level}">${icon(level)}${span(s.full_in_seconds)}</p>` : html`<p class="big s-ok">${icon('ok')}not filling</p>`;
}
const kept = (s) => `It keeps ${bytes(s.retained_bytes)} of ${s.limit_bytes ? `${bytes(s.limit_bytes)} (${s.limited_by ?? 'its limit'})` : 'what the disk holds'}`;
const growth = (s) => s.bytes_per_second ? `, ${bytes(s.bytes_per_second * HOUR)} more an hour` : '';
function explain(s) {
  if (s.state === 'new') return 'cdc bootstrap makes it.';
  if (isLost(s)) return 'Postgres has removed WAL that the capture needs: only cdc recapture helps.';
  if (s.retained_bytes == null) return 'The source has not said how much it keeps.';
  if (isOver(s)) return `${kept(s)}${growth(s)}. ${s.policy === 'drop' ? 'cdc follow drops it unless it shrinks, and copies all tables again.' : 'The source\'s disk is in danger.'}`;
  if (s.full_in_seconds == null) return `${kept(s)}${growth(s)}${page.doc.parts.capture?.state === 'ok' ? ', and moves on with the capture' : s.active ? '' : ', and nobody reads it'}.`;
  const end = `${s.full_in_seconds > DAY ? `${day(s.full_at)}, ` : ''}${clock(s.full_at, false)}`;
  return html`At the present rate: ${when(s.full_at, end)} ${zone()}. ${kept(s)}, ${bytes(s.bytes_per_second * HOUR)} more an hour.`;
}
export function paintSlot() {
  const s = page.doc.slot, used = s.retained_bytes != null && s.limit_bytes ? Math.min(s.retained_bytes / s.limit_bytes, 1) : 0, fills = s.full_in_seconds != null;
  put('slot', html`<div class="slot-head"><h2>Time until the slot is full</h2>${heading(s)}<p class="sub">${explain(s)}</p>
    ${s.held_by ? html`<p class="sub">Held by ${s.held_by}.</p>` : ''}
    ${s.limit_bytes ? html`<svg class="bar" role="img" aria-label="${Math.round(used * 100)} % of the limit" viewBox="0 0 1000 8" preserveAspectRatio="none"><rect class="f ${fills ? `s-${levelOf(s)}` : ''}" width="${Math.max(used * 1000, s.retained_bytes ? 4 : 0).toFixed(0)}" height="8"/></svg>` : ''}</div>`);
  $('slot-sr').textContent = fills ? `The slot keeps ${bytes(s.retained_bytes)} of ${bytes(s.limit_bytes)} and is full in ${span(s.full_in_seconds)}.` : '';
}

const none = (n) => Array(n).fill(null);
/** What was kept, and behind it the line that the present rate draws to the limit. */
function lines(xs, slot, past, isFilling) {
  const ahead = Array.from({ length: isFilling ? AHEAD : 0 }, (_, i) => (i + 1) / AHEAD), last = lastKnown(past) ?? 0;
  const future = [...none(xs.length - 1), isFilling ? last : null, ...ahead.map((part) => last + (slot.limit_bytes - last) * part)];
  return [[...xs, ...ahead.map((part) => xs.at(-1) + slot.full_in_seconds * part)], [...past, ...none(ahead.length)], future];
}
export function drawSlot(xs) {
  const { slot, series } = page.doc, isFilling = slot.full_in_seconds != null && slot.full_in_seconds < DAY / 2 && slot.limit_bytes > 0;
  const colour = ink(isFilling ? '--today' : '--ink2'), limit = slot.limit_bytes ? `limit ${bytes(slot.limit_bytes)}` : '';
  const drawLimit = (u) => {
    if (!isFilling) { write(u, limit && `${limit}, far above`, u.bbox.left + u.bbox.width - px(4), u.bbox.top + px(8), ink('--ink3'), 'right'); return; }
    const y = u.valToPos(slot.limit_bytes, 'y', true), x = u.valToPos(xs.at(-1), 'x', true);
    across(u, y, ink('--now'), []);
    write(u, limit, u.bbox.left + px(4), y - px(8), ink('--now'));
    down(u, x, ink('--ink3'));
    write(u, 'now', x - px(5), u.bbox.top + u.bbox.height - px(8), ink('--ink2'), 'right');
  };
  const steps = isFilling ? [1, 2, 4, 8, 16, 32, 64, 128, 256].map((n) => n * GIB) : [2 ** 10, 2 ** 15, 2 ** 20, 2 ** 22, 2 ** 25, 2 ** 26, 2 ** 27, GIB, 2 ** 33, 2 ** 36];
  return new uPlot(base('c-slot', {
    padding: [18, 14, 0, 0], cursor: cursor(5), scales: { y: { range: (u, low, high) => [0, isFilling ? slot.limit_bytes * 1.06 : Math.max(high ?? 0, 2 ** 12) * 3] } },
    axes: [timeAxis({ space: 60 }), axis({ size: 60, space: 36, incrs: steps, values: (u, vs) => vs.map((v) => v ? bytes(v) : '0') })],
    series: [{}, { stroke: colour, fill: ink(isFilling ? '--fill-today' : '--fill'), width: 1.7, points: { show: false } }, { stroke: colour, width: 1.7, dash: [4, 4], points: { show: false } }],
    hooks: { draw: [drawLimit] },
  }), lines(xs, slot, series.slot_bytes, isFilling), $('c-slot'));
}
