/** What the charts share: colours of the style sheet, axes, words and lines on a canvas. uPlot draws. */

import { $ } from '../html.js';
import { choices } from '../state.js';
import { clock } from '../words.js';

const probe = document.body.appendChild(document.createElement('i'));
probe.hidden = true;
/** A colour of the style sheet as a canvas takes it. */
export const ink = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
export const px = (n) => n * devicePixelRatio;
const family = () => getComputedStyle(document.body).fontFamily;

export const axis = (more) => ({ stroke: ink('--ink3'), font: `11px ${family()}`, grid: { stroke: ink('--grid'), width: 1 }, ticks: { show: false }, border: { show: false }, ...more });
export const timeAxis = (more = {}) => axis({ grid: { show: false }, space: 70, size: 24, values: (u, times) => times.map((t) => clock(t * 1000, false)), ...more });
export const base = (id, more) => ({ width: $(id).clientWidth || 300, height: $(id).clientHeight || 100, legend: { show: false }, padding: [10, 66, 0, 0], tzDate: (t) => choices.utc ? uPlot.tzDate(new Date(t * 1e3), 'Etc/UTC') : new Date(t * 1e3), ...more });
export const cursor = (size) => ({ y: false, drag: { x: true, y: false }, points: { size } });

export function write(u, text, x, y, colour, align = 'left') {
  const { ctx } = u;
  ctx.font = `600 ${px(11)}px ${family()}`;
  ctx.fillStyle = colour; ctx.textAlign = align; ctx.textBaseline = 'middle';
  ctx.fillText(text, x, y);
}
export function stroke(u, [x0, y0, x1, y1], colour, dash = [], alpha = 1) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour; ctx.globalAlpha = alpha; ctx.lineWidth = px(1); ctx.setLineDash(dash.map(px));
  ctx.beginPath(); ctx.moveTo(x0, y0); ctx.lineTo(x1, y1); ctx.stroke();
  ctx.restore();
}
export const across = (u, y, colour, dash) => stroke(u, [u.bbox.left, y, u.bbox.left + u.bbox.width, y], colour, dash);
export const down = (u, x, colour, dash, alpha) => stroke(u, [x, u.bbox.top, x, u.bbox.top + u.bbox.height], colour, dash, alpha);
export const lastKnown = (line) => line.findLast((v) => v != null);
