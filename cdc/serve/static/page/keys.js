/** Clicks and keys. */

import { $, html, put } from './html.js';
import { byOrder, choices, isDark, page, store } from './state.js';
import { closeDrawer, openDrawer } from './parts/drawer.js';
import { drawCharts } from './parts/charts.js';
import { confirmed, openQuestion } from './verbs.js';
import { copy, toast } from './toast.js';

const KEYS = [['/', 'filter tables'], ['j k', 'next, previous problem or row'], ['Enter', 'open it'], ['Esc', 'close'], ['c', 'copy the first remedy'], ['g then n f o t v d e l r', 'go to now, fresh, followers, tables, views, dead letters, verification, timeline, trace'], ['b', 'bytes and LSNs'], ['u', 'UTC or local time'], ['p', 'hold the page still'], ['?', 'this list']];
const GO = { n: 'now', f: 'freshness', o: 'followers', t: 'tables', v: 'views', d: 'letters', e: 'verification', l: 'timeline', r: 'trace' };
const GO_MS = 900;

export function setView() {
  const root = document.documentElement;
  if (choices.theme) root.dataset.theme = choices.theme; else delete root.dataset.theme;
  root.toggleAttribute('data-bytes', choices.bytes);
  $('t-theme').textContent = isDark() ? 'Light' : 'Dark';
  $('t-zone').textContent = choices.utc ? 'UTC' : 'Local';
  $('t-zone').setAttribute('aria-pressed', choices.utc);
  $('t-bytes').setAttribute('aria-pressed', choices.bytes);
  document.querySelectorAll('[data-do=pct]').forEach((b) => b.setAttribute('aria-pressed', b.dataset.v === choices.percentile));
}
const redraw = () => page.doc && drawCharts();
function showKeys() {
  const keys = (all) => all.split(' ').map((key) => key === 'then' ? ' then ' : html`<kbd>${key}</kbd> `);
  put('keys', html`<h2 id="keys-title">Keys</h2><div class="keys">${KEYS.map(([all, text]) => html`<span>${keys(all)}</span><span>${text}</span>`)}</div><form method="dialog" class="acts"><button class="btn" autofocus>Close</button></form>`);
  $('keys').showModal();
}

/** What a button or a key does; `paint` brings the page to it. */
function actions(paint) {
  const clearFilter = () => { choices.filter = $('filter').value = ''; choices.chip = 'all'; paint(); };
  return {
    copy, close: closeDrawer, clear: clearFilter, keys: showKeys, verb: openQuestion, confirm: confirmed,
    theme: () => { choices.theme = isDark() ? 'light' : 'dark'; store('theme', choices.theme); setView(); redraw(); },
    zone: () => { choices.utc = !choices.utc; store('utc', choices.utc ? '1' : '0'); setView(); paint(); redraw(); },
    bytes: () => { choices.bytes = !choices.bytes; store('bytes', choices.bytes ? '1' : ''); setView(); },
    pct: (v) => { choices.percentile = v; setView(); redraw(); }, chip: (v) => { choices.chip = v; paint(); },
    sort: (v) => { choices.up = choices.sort === v ? !choices.up : true; choices.sort = v; paint(); },
    hold: () => { page.isHeld = !page.isHeld; toast(page.isHeld ? 'Held still; p goes on' : 'Live again'); paint(); },
    remedy: () => { const first = byOrder(page.doc.problems).find(([, p]) => p.command); if (first) copy(first[1].command); else toast('Nothing to copy: no problem has a command'); },
  };
}

let wentAt = -GO_MS;
function press(e, act) {
  if (performance.now() - wentAt < GO_MS && GO[e.key]) { wentAt = -GO_MS; $(GO[e.key])?.scrollIntoView(); return; }
  const keys = {
    '/': () => { e.preventDefault(); $('filter').focus(); $('tables').scrollIntoView({ block: 'nearest' }); }, g: () => { wentAt = performance.now(); },
    b: act.bytes, u: act.zone, '?': act.keys, c: act.remedy, p: act.hold, j: () => step(1), k: () => step(-1),
  };
  keys[e.key]?.();
}
function step(by) {
  const all = [...document.querySelectorAll('.problem summary, .rowname')], at = all.indexOf(document.activeElement);
  all[Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}
function escape(act) {
  if (document.activeElement === $('filter') && choices.filter) act.clear(); else closeDrawer();
}

export function watchKeys(paint) {
  const act = actions(paint);
  document.addEventListener('click', (e) => {
    const doing = e.target.closest('[data-do]'), opening = e.target.closest('[data-open]');
    if (doing) { e.preventDefault(); act[doing.dataset.do](doing.dataset.v, doing.dataset.on, doing); return; }
    if (opening && !getSelection().toString()) { openDrawer(opening.dataset.open); return; }
    if (choices.drawer && !e.target.closest('dialog, a')) closeDrawer();
  });
  document.addEventListener('keydown', (e) => {
    if (document.querySelector('dialog:modal')) return;
    if (e.key === 'Escape') { escape(act); return; }
    if (!page.doc || e.metaKey || e.ctrlKey || e.altKey || e.target.matches('input, select, textarea')) return;
    press(e, act);
  });
  $('filter').addEventListener('input', (e) => { choices.filter = e.target.value; paint(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { setView(); redraw(); });
}
