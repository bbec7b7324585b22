/** One object, linked by #kind/name: its state, problem and remedy, facts, lately, verbs. */

import { $, block, command, facts, html, icon, put, spark, withCode } from '../html.js';
import { choices, page } from '../state.js';
import { badge, TABLE_WORDS, when } from '../states.js';
import { bytes, clock, count, fill, plural, span } from '../words.js';
import { actButton } from '../verbs.js';
import { lag } from './followers.js';
import { remedyOf } from './now.js';
import { donePercent, tableState } from './tables.js';

const time = (iso) => iso ? when(iso) : null;
const unless = (value, text) => value == null ? null : text(value);

function problemBox(name) {
  const p = Object.values(page.doc.problems).find(({ object }) => object?.name === name);
  return p ? html`<div class="note-box s-${p.level}"><b>${fill(p.what, p)}${p.since ? `, since ${clock(p.since)}` : ''}</b><span>${withCode(fill(p.why, p))} ${fill(p.hurts, p)}</span><span>${withCode(fill(p.remedy, p))}</span>${remedyOf(p)}</div>` : '';
}
/** An event of a part says its name as a word of its own. */
function lately(name) {
  const word = new RegExp(`(^|[^\\w.])${RegExp.escape ? RegExp.escape(name) : name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\w.]\\w)`);
  const found = page.doc.events.filter((e) => word.test(e.text)).slice(0, 6);
  return found.length ? block('Lately', html`<dl class="facts">${found.map((e) => html`<dt>${when(e.at, clock(e.at, false))}</dt><dd>${e.text}</dd>`)}</dl>`) : '';
}
function stages({ stages: all }) {
  const entries = Object.entries(all), sum = entries.reduce((n, [, v]) => n + v, 0) || 1;
  let x = 0;
  const bar = entries.map(([, v]) => { const from = x, width = v / sum * 100; x += width; return html`<rect x="${from.toFixed(2)}" width="${Math.max(width - 0.4, 0).toFixed(2)}" height="10"/>`; });
  return html`<svg class="stages" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">${bar}</svg><p class="legend">${entries.map(([name, v]) => html`<span><i></i>${name} ${v.toFixed(2)} s</span>`)}</p>`;
}
const acts = (...buttons) => html`<div class="acts">${buttons}</div>`;

function copyBlock(c) {
  const about = c.is_estimate === false ? '' : 'about ';
  return block('Copy', html`<ul class="phases"><li><span class="s-ok">${icon('ok')}</span>a snapshot of the slot is open${c.began_at ? `, since ${clock(c.began_at)}` : ''}</li><li><span class="s-busy">${icon('copying')}</span>rows: <progress max="100" value="${donePercent(c)}" aria-label="rows copied"></progress>${about}${donePercent(c)} %</li><li class="dim">${icon('new')}changes since then are applied</li><li class="dim">${icon('new')}joins the others, with the next cut</li></ul>${facts([['rows', `${count(c.done_rows)} of ${about}${count(c.all_rows)}`], ['rate', unless(c.rows_per_second, (n) => `${count(n)} rows a second`)], ['left', unless(c.seconds_left, span)]])}`);
}
const DRAWERS = {
  table(name) {
    const t = page.doc.tables[name];
    if (!t) return null;
    const state = tableState(t);
    return [name, { state, word: TABLE_WORDS[state] }, [
      problemBox(name) || (t.reason ? html`<div class="note-box">${t.reason}</div>` : ''),
      t.copy ? copyBlock(t.copy) : '',
      t.day?.length ? block('Changes a minute, 24 h', spark(t.day)) : '',
      facts([['state since', time(t.since)], ['rows in the source', unless(t.rows, count)], ['last change', time(t.changed_at)], ['waits', t.changes_waiting ? plural(t.changes_waiting, 'change') : null], ['held by', (t.in ?? Object.keys(page.doc.followers)).join(', ')], ['in views', t.in_views?.join(', ')], ['history', t.history ? 'every version kept' : null], ['keys held', t.held_keys], ['verified', t.verified_at ? html`${t.verdict}, ${when(t.verified_at)}` : 'not yet'], ['readable as of', t.lsn, true]]),
      lately(name), acts(actButton('recopy', name), actButton('verify', name))]];
  },
  follower(name) {
    const f = page.doc.followers[name];
    return f && [name, f, [problemBox(name), f.why ? html`<p>${f.why}</p>` : '',
      facts([['kind', `${f.kind}${f.what ? `: ${f.what}` : ''}`], ['state since', time(f.since)], ['holds', unless(f.holds, (n) => plural(n, 'table'))], ['behind by', lag(f)], ['waiting', unless(f.changes_waiting, (n) => plural(n, 'change'))], ['arrives, applies', unless(f.arrives_per_second, (n) => `${count(n)}, ${count(f.applies_per_second)} changes a second`)], ['caught up in', unless(f.caught_up_in_seconds, span)], ['seen after', unless(f.p50_seconds, (s) => `${span(s)}, p99 ${span(f.p99_seconds)}`)], [`within ${page.doc.pipeline.goal_seconds} s, 24 h`, unless(f.kept_goal_ratio, (r) => `${(r * 100).toFixed(2)} %`)], ['bytes waiting', unless(f.bytes_waiting, bytes), true], ['at', f.lsn, true]]),
      f.batch?.stages ? block(`A batch: ${count(f.batch.changes_p50)} changes in ${span(f.batch.seconds_p50)} (p50)`, stages(f.batch)) : '',
      lately(name), acts(actButton(f.state === 'paused' ? 'resume' : 'pause', name), actButton('restart', name), actButton('verify', name))]];
  },
  part(id) {
    const p = page.doc.parts[id], s = page.doc.slot;
    if (!p) return null;
    const slot = id === 'source' && s.retained_bytes != null ? block('Slot', facts([['name', s.name], ['keeps', `${bytes(s.retained_bytes)}${s.limit_bytes ? ` of ${bytes(s.limit_bytes)}` : ''}`], ['full in', s.full_in_seconds != null ? span(s.full_in_seconds) : 'not filling'], ['held by', s.held_by], ['status', s.wal_status]])) : '';
    const verbs = id === 'capture' ? acts(actButton('restart', 'capture'), actButton(p.state === 'paused' ? 'resume' : 'pause', 'capture')) : '';
    return [`${p.kind} ${p.name}`, p, [problemBox(id) || problemBox(p.name), facts([['state since', time(p.since)], ...(p.facts ?? []).map((f) => [f.name, f.value, f.deep])]), slot, lately(p.name), verbs]];
  },
  view(name) {
    const v = page.doc.views[name];
    return v && [name, v, [problemBox(name), v.why ? html`<div class="note-box">${v.why}</div>` : '', facts([['state since', time(v.since)], ['rows', unless(v.rows, count)], ['shows commits after', unless(v.shows_seconds, span)], ['kept up', v.how], ['groups anew', unless(v.groups_per_minute, (n) => `${count(n)} a minute`)], ['came too late', v.late], ['made of', v.tables?.join(', ')], ['held by', v.in?.join(', ') || 'the lake alone'], ['verified', v.verified_at ? html`${v.verdict}, ${when(v.verified_at)}` : 'not yet']]), block('How a change reaches it', command(`cdc views explain ${name}`)), acts(actButton('rebuild', name), actButton('verify', name))]];
  },
  letters(id) {
    const l = page.doc.letters[id];
    return l && [l.table, { state: 'paused', word: `${plural(l.keys, 'key')} held` }, [facts([['reason', l.reason], ['messages', `${count(l.messages)}${l.waiting ? `, of them ${l.waiting} only wait behind another` : ''}`], ['oldest', time(l.oldest_at)], ['first', l.first ? html`<span class="mono">${l.first}</span>` : null]]), block('On the command line, values masked', command('cdc dead-letters list')), html`<p class="sub">Values are never shown here.</p>`, acts(actButton('replay', l.table))]];
  },
};

export function paintDrawer() {
  const box = $('drawer'), [kind, name] = choices.drawer ?? [], found = DRAWERS[kind]?.(name);
  if (!found) { if (box.open) box.close(); return; }
  const [title, state, content] = found;
  put('drawer', html`<header><div><h2 id="drawer-title">${title}</h2>${badge(state)}</div><button type="button" class="close" data-do="close" aria-label="Close">${icon('close')}</button></header><div class="inner">${content}</div>`);
  if (!box.open) { box.show(); box.querySelector('.close').focus(); }
}
let cameFrom = null;
export function openDrawer(reference) {
  const at = reference.indexOf(':'), kind = reference.slice(0, at), name = reference.slice(at + 1);
  if (kind === 'section') { $(name).scrollIntoView({ behavior: 'smooth' }); return; }
  if (!choices.drawer) cameFrom = document.activeElement;
  choices.drawer = [kind, name];
  history.replaceState(null, '', `#${kind}/${encodeURIComponent(name)}`);
  paintDrawer();
}
export function closeDrawer() {
  if (!choices.drawer) return;
  choices.drawer = null;
  $('drawer').close();
  history.replaceState(null, '', location.pathname + location.search);
  cameFrom?.focus();
}
export function openFromHash() {
  const [kind, name] = location.hash.slice(1).split('/');
  if (name && DRAWERS[kind]) { choices.drawer = [kind, decodeURIComponent(name)]; paintDrawer(); }
}
