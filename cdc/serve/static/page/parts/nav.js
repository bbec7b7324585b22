/** The parts of the page at its side, each with a shape and a count where something is not well. */

import { $, attribute, html, icon, put } from '../html.js';
import { page } from '../state.js';
import { levelOf, looks, stateOf } from '../states.js';
import { count } from '../words.js';
import { isFilling } from './path.js';
import { tableState } from './tables.js';

let section = 'now';
const flag = (shape, colour, n) => html`<span class="flag s-${colour}">${icon(shape)}${n}</span>`;
const number = (n) => html`<span class="n">${count(n)}</span>`;
const sum = (map, key) => Object.values(map).reduce((n, o) => n + (o[key] ?? 0), 0);

function nowFlag() {
  const { level } = page.doc.verdict, problems = Object.keys(page.doc.problems).length, [shape] = levelOf(level);
  if (page.trouble) return flag('unknown', 'today', '');
  if (problems) return flag(shape, level, problems);
  return ['ok', 'busy'].includes(level) ? html`<span class="s-${level}">${icon(shape)}</span>` : '';
}
function worst(map) {
  const states = Object.values(map).map((o) => stateOf(o).state), bad = states.filter((s) => !['ok', 'new'].includes(s)).sort((a, b) => looks(a)[2] - looks(b)[2]);
  return html`${bad.length ? flag(...looks(bad[0]).slice(0, 2), bad.length) : ''}${number(states.length)}`;
}
function tablesFlag() {
  const states = Object.values(page.doc.tables).map(tableState), stopped = states.filter((s) => s === 'stopped').length;
  return html`${stopped ? flag('stopped', 'now', count(stopped)) : ''}${number(states.length)}`;
}
export function paintNav() {
  const { doc } = page, letters = sum(doc.letters, 'messages'), late = Object.values(doc.verifications).filter((v) => v.verdict !== 'equal').length;
  put('brand', html`${doc.pipeline.name}<small> cdc ${doc.pipeline.version}</small>`);
  const items = [
    ['now', 'Now', nowFlag()], ['freshness', 'How fresh', isFilling() ? flag('today', 'today', '') : ''], ['followers', 'Followers', worst(doc.followers)],
    ['tables', 'Tables', tablesFlag()], ['views', 'Views', worst(doc.views)], ['letters', 'Dead letters', letters ? flag('know', 'know', count(letters)) : number(0)],
    ['verification', 'Verification', late ? flag('know', 'know', late) : ''], ['timeline', 'Timeline', ''], ['trace', 'Trace a row', ''],
  ];
  const isShown = ([id]) => $(id) && !$(id).hidden;
  put('nav', items.filter(isShown).map(([id, name, extra]) => html`<a href="#${id}"${attribute('aria-current', id === section ? 'true' : null)}>${name}<span class="count">${extra}</span></a>`));
}
/** Mark where the reader is. */
export function watchSections() {
  const sections = [...document.querySelectorAll('section[id]')], seen = new Set();
  const spy = new IntersectionObserver((entries) => {
    for (const e of entries) seen[e.isIntersecting ? 'add' : 'delete'](e.target);
    const first = sections.find((s) => seen.has(s));
    if (!first || !page.doc) return;
    section = first.id;
    paintNav();
    const link = $('nav').querySelector('[aria-current]');
    if (link) $('nav').scrollLeft = link.offsetLeft - 80;
  }, { rootMargin: '-14% 0px -70% 0px' });
  sections.forEach((s) => spy.observe(s));
}
