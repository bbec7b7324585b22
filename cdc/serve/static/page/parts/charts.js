/** Questions 5 and 6: how fresh were we, and what changed when that changed; the load; the slot. */

import { $, html, put } from '../html.js';
import { byOrder, choices, page } from '../state.js';
import { clock, short, span } from '../words.js';
import { across, axis, base, cursor, down, ink, lastKnown, px, timeAxis, write } from './drawing.js';
import { signOf } from './now.js';
import { drawSlot } from './slot.js';

const charts = {};
const STYLES = [['--c1', []], ['--c2', [7, 3]], ['--c3', [2, 3]], ['--c4', [9, 3, 2, 3]]];
/** A follower keeps its line whatever others come: by its place in the path. */
const styleOf = (i) => i < STYLES.length ? STYLES[i] : [STYLES[i % 4][0], [4 + i, 3]];
const TICKS = [0.1, 0.3, 1, 3, 10, 60, 600, 3600, 36000, 360000], EVEN = [0.5, 1, 2, 5, 10, 20];

/** The names at the ends of the lines, moved apart where they would touch. */
function nameLines(u, names) {
  const gap = px(14), right = u.bbox.left + u.bbox.width + px(7), bottom = u.bbox.top + u.bbox.height;
  const known = names.map((name, i) => ({ name, i, last: lastKnown(u.data[i + 1]) })).filter((l) => l.last != null);
  const labels = known.map((l) => ({ ...l, y: u.valToPos(l.last, 'y', true) })).sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; i++) labels[i].y = Math.max(labels[i].y, labels[i - 1].y + gap);
  const over = labels.length ? labels.at(-1).y - bottom : 0;
  for (const l of labels) write(u, l.name, right, over > 0 ? l.y - over : l.y, ink(styleOf(l.i)[0]));
}
function readout(at) {
  const { names, data } = charts.fresh ?? {};
  if (!names?.length) return;
  const i = at ?? data[0].length - 1;
  const sample = (k) => html`<svg viewBox="0 0 18 8" aria-hidden="true"><path d="M0 4H18" fill="none" stroke="var(${styleOf(k)[0]})" stroke-width="2" stroke-dasharray="${styleOf(k)[1].join(' ')}"/></svg>`;
  put('fresh-read', html`<span>${at == null ? 'now' : clock(data[0][i] * 1000, false)}</span>${names.map((name, k) => html`<i>${sample(k)}${name} <b>${span(data[k + 1][i])}</b></i>`)}`);
}

function freshScale(isWide, goal) {
  if (!isWide) return { range: (u, low, high) => [0, Math.max(high ?? 0, goal) * 1.2] };
  return { distr: 3, range: (u, low, high) => [Math.max(Math.min(low, goal), 0.05) / 1.6, Math.max(high, goal) * 1.7] };
}
function freshSplits(u, isWide) {
  const { min, max } = u.scales.y;
  if (isWide) return TICKS.filter((t) => t > min && t < max);
  const by = EVEN.find((e) => max / e < 6) ?? 60;
  return Array.from({ length: Math.floor(max / by) + 1 }, (_, i) => i * by);
}
const tick = (v) => v === 0 ? '0' : v === 60 ? '1 min' : v === 3600 ? '1 h' : span(v).replace('.0', '');
function drawMarks(u, since) {
  for (const e of page.doc.events) {
    const at = Date.parse(e.at) / 1000;
    if (!e.level || at <= since) continue;
    const x = u.valToPos(at, 'x', true), colour = ink(`--${e.level}`);
    down(u, x, colour, [2, 3], 0.55);
    write(u, signOf(e.level), x, u.bbox.top - px(4), colour, 'center');
  }
}
function drawFresh(xs) {
  const { series, pipeline, followers } = page.doc, goal = pipeline.goal_seconds;
  const names = byOrder(followers).map(([name]) => name).filter((name) => series.freshness[name]);
  const data = [xs, ...names.map((name) => series.freshness[name][choices.percentile])];
  const most = data.slice(1).flat().reduce((a, b) => Math.max(a, b ?? 0), 0), isWide = most > goal * 4;
  $('fresh-sub').textContent = `From the commit until readers see it, ${choices.percentile} of each minute; the goal is ${goal} s${isWide ? '. Log scale' : ''}`;
  $('fresh-sr').textContent = names.map((name) => `${name}: ${span(lastKnown(series.freshness[name].p50))}, p99 ${span(lastKnown(series.freshness[name].p99))}`).join('; ');
  const goalLine = (u) => { const y = u.valToPos(goal, 'y', true); across(u, y, ink('--ink2'), [4, 4]); write(u, `goal ${goal} s`, u.bbox.left + px(4), y - px(8), ink('--ink2')); };
  const u = new uPlot(base('c-fresh', {
    cursor: { ...cursor(6), sync: { key: 't' } }, scales: { y: freshScale(isWide, goal) },
    axes: [timeAxis(), axis({ size: 52, splits: (u) => freshSplits(u, isWide), filter: (u, v) => v, values: (u, vs) => vs.map(tick) })],
    series: [{}, ...names.map((name, i) => ({ label: name, stroke: ink(styleOf(i)[0]), width: 1.7, dash: styleOf(i)[1], points: { show: false } }))],
    hooks: { drawClear: [(u) => drawMarks(u, xs[0])], draw: [(u) => { goalLine(u); nameLines(u, names); }], setCursor: [(u) => readout(u.cursor.idx)] },
  }), data, $('c-fresh'));
  charts.fresh = { u, names, data };
  readout(null);
}
function drawLoad(xs) {
  const { arrived } = page.doc.series.changes_per_minute, last = lastKnown(arrived);
  const now = (u) => last == null || write(u, short(last), u.bbox.left + u.bbox.width + px(7), u.valToPos(last, 'y', true), ink('--ink2'));
  const u = new uPlot(base('c-load', {
    padding: [6, 66, 8, 0], cursor: { ...cursor(5), sync: { key: 't' } }, scales: { y: { range: (u, low, high) => [0, Math.max(high ?? 0, 1) * 1.15] } },
    axes: [timeAxis({ show: false }), axis({ size: 52, space: 26, values: (u, vs) => vs.map(short) })],
    series: [{}, { stroke: ink('--ink3'), fill: ink('--grid'), width: 1.2, points: { show: false } }],
    hooks: { draw: [now] },
  }), [xs, arrived], $('c-load'));
  charts.load = { u };
}

/** Draw all three anew: at first, with a new point each minute, and when colours or the clock change. */
export function drawCharts() {
  for (const name of Object.keys(charts)) { charts[name].u.destroy(); delete charts[name]; }
  const s = page.doc.series, n = s.slot_bytes.length, start = Date.parse(s.start) / 1000;
  $('freshness').hidden = !n;
  if (!n) return;
  const xs = Array.from({ length: n }, (_, i) => start + (i + 1) * s.step_seconds);
  drawFresh(xs);
  drawLoad(xs);
  charts.slot = { u: drawSlot(xs) };
}
new ResizeObserver(() => { for (const [name, { u }] of Object.entries(charts)) u.setSize({ width: $(`c-${name}`).clientWidth, height: $(`c-${name}`).clientHeight }); }).observe($('page'));
