/** Templates: text is escaped unless it is a template; what is painted again changes only where it differs. */

export class Html { constructor(text) { this.text = text; } }
const escape = (s) => String(s).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
function part(v) {
  if (v == null || v === false || v === true) return '';
  if (v instanceof Html) return v.text;
  return Array.isArray(v) ? v.map(part).join('') : escape(v);
}
export const html = (strings, ...values) => new Html(strings.reduce((out, s, i) => out + part(values[i - 1]) + s));
export const attribute = (name, value) => value == null || value === false ? '' : new Html(` ${name}="${escape(value)}"`);
export const $ = (id) => document.getElementById(id);

/** Bring `to` into `from` with the least change, so that focus, selection and open parts stay. */
function morph(from, to) {
  const a = [...from.childNodes], b = [...to.childNodes];
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const x = a[i], y = b[i];
    if (!y) x.remove();
    else if (!x) from.append(y);
    else if (x.nodeName !== y.nodeName || x.dataset?.key !== y.dataset?.key) x.replaceWith(y);
    else if (x.nodeType === Node.TEXT_NODE) { if (x.data !== y.data) x.data = y.data; } else if (x.nodeType === Node.ELEMENT_NODE) { morphAttributes(x, y); morph(x, y); }
  }
}
/** `open` and `disabled` belong to the reader and to what he began. */
const OWN = ['open', 'disabled'];
function morphAttributes(x, y) {
  for (const { name, value } of [...y.attributes]) if (!OWN.includes(name) && x.getAttribute(name) !== value) x.setAttribute(name, value);
  for (const { name } of [...x.attributes]) if (!OWN.includes(name) && !y.hasAttribute(name)) x.removeAttribute(name);
}

const painted = new Map();
export function put(id, content) {
  const text = part(content);
  if (painted.get(id) === text) return;
  painted.set(id, text);
  const made = document.createElement('template');
  made.innerHTML = text;
  morph($(id), made.content);
}

export const icon = (name, cls = '') => html`<svg class="i ${cls}" aria-hidden="true"><use href="#i-${name}"/></svg>`;
export const NONE = html`<span class="dim">–</span>`;
export const head = (id, title, sub, extra = '') => html`<div class="card-head"><div><h2 id="h-${id}">${title}</h2><p class="sub">${sub}</p></div>${extra}</div>`;
/** A grid: columns that begin with > are of numbers. */
export const grid = (columns, rows) => html`<div class="wide"><table class="cards"><thead><tr>${columns.map((c) => html`<th scope="col" class="${c[0] === '>' ? 'num' : ''}">${c.replace('>', '')}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`;
export const command = (text, language = 'sh') => html`<div class="cmd"><pre tabindex="0" data-lang="${language === 'sh' ? '' : language}">${text}</pre><button type="button" data-do="copy" data-v="${text}" aria-label="Copy: ${text}">${icon('copy')}<span>Copy</span></button></div>`;
export const facts = (pairs) => html`<dl class="facts">${pairs.filter(([, v]) => v != null && v !== '').map(([k, v, deep]) => html`<dt class="${deep ? 'deep' : ''}">${k}</dt><dd class="${deep ? 'deep mono' : ''}">${v}</dd>`)}</dl>`;
export const block = (title, content) => html`<section><h3>${title}</h3>${content}</section>`;

/** 24 h, from 0, without an axis: is this usual? */
export function spark(points) {
  const known = points?.map((v) => v ?? 0);
  if (!known || known.length < 2) return NONE;
  const top = Math.max(...known, 1e-9), step = 100 / (known.length - 1);
  const line = known.map((v, i) => `${i ? 'L' : 'M'}${(i * step).toFixed(1)} ${(19 - v / top * 17).toFixed(1)}`).join('');
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><path class="area" d="${line}L100 20L0 20Z"/><path d="${line}"/></svg>`;
}

/** A text in which backticks stand around what is typed. */
export const withCode = (text) => text.split('`').map((part, i) => i % 2 ? html`<code>${part}</code>` : part);
