/** Questions 8 and 9: dead letters, verification, timeline. */

import { command, grid, head, html, icon, put } from '../html.js';
import { page } from '../state.js';
import { levelOf, when } from '../states.js';
import { clock, count, day, plural, short } from '../words.js';
import { actButton } from '../verbs.js';

const sum = (list, key) => list.reduce((n, o) => n + (o[key] ?? 0), 0);

const letterRow = ([id, l]) => html`<tr data-key="${id}" data-open="letters:${id}"><td class="lead duo"><button type="button" class="rowname" data-open="letters:${id}">${l.table}</button><small>${l.reason}</small></td><td data-h="Keys" class="num">${count(l.keys)}</td><td data-h="Messages" class="num duo">${count(l.messages)}<small>${l.waiting ? `${count(l.waiting)} only wait` : ''}</small></td><td data-h="Oldest" class="num">${l.oldest_at ? when(l.oldest_at) : '–'}</td></tr>`;
export function paintLetters() {
  const all = Object.entries(page.doc.letters), letters = all.map(([, l]) => l);
  const sub = all.length ? `${plural(sum(letters, 'messages'), 'message')} not applied; they hold ${plural(sum(letters, 'keys'), 'key')}` : 'Messages that could not be applied';
  const body = all.length ? html`${grid(['Table and reason', '>Keys', '>Messages', '>Oldest'], all.map(letterRow))}<div class="below"><p>Keys and values stay masked here. On the command line:</p>${command('cdc dead-letters list')}</div>` : html`<div class="empty">None. Every message was applied.</div>`;
  put('letters', html`${head('letters', 'Dead letters', sub, all.length ? actButton('replay', letters[0].table) : '')}${body}`);
}

function verificationRow([name, v]) {
  const [shape, colour] = v.verdict !== 'equal' ? ['stopped', 'now'] : ['ok', 'ok'];
  return html`<tr data-key="${name}"><td class="lead"><b>${name}</b></td><td data-h="Result"><span class="state s-${colour}">${icon(shape)}${v.verdict}</span></td><td data-h="Compared" class="num duo">${short(v.rows)} rows<small>${count(v.tables)} of ${count(v.of)} ${name === 'views' ? 'views' : 'tables'}</small></td><td data-h="Keys" class="num duo">${v.keys ? html`<span class="s-now">${count(v.keys)} differ</span>` : '–'}<small>${v.moved ? `${count(v.moved)} moved` : ''}</small></td><td data-h="When" class="num duo">${when(v.at)}<small>${v.every_seconds ? (v.oldest_at ? html`oldest ${when(v.oldest_at)}` : 'not all yet') : ''}</small></td></tr>`;
}
export function paintVerifications() {
  const all = Object.entries(page.doc.verifications);
  const body = all.length ? grid(['Follower', 'Result', '>Compared', '>Keys', '>When'], all.map(verificationRow)) : html`<div class="empty">Not verified yet. <code>cdc verify</code> compares every row.</div>`;
  put('verification', html`${head('verification', 'Verification', 'Every row compared with the source', actButton('verify', ''))}${body}`);
}

export function paintTimeline() {
  let last = '';
  const rows = page.doc.events.map((e) => {
    const today = day(e.at), title = today !== last ? html`<li class="day">${today}</li>` : '';
    last = today;
    return [title, html`<li>${when(e.at, clock(e.at, false))}${e.level ? html`<span class="s-${e.level}">${icon(levelOf(e.level)[0])}</span>` : html`<span class="pt"></span>`}<span>${e.text}</span></li>`];
  });
  put('timeline', html`${head('timeline', 'Timeline', 'Copies, schema changes, stops, restarts, repairs: 24 h')}${rows.length ? html`<ol class="events" tabindex="0" aria-label="Events, newest first">${rows}</ol>` : html`<div class="empty">Nothing has happened yet.</div>`}`);
}

export function paintFoot() {
  const { doc, mayAct } = page;
  put('foot', html`<span>${doc.pipeline.file} ${doc.pipeline.file_state}</span><span>${doc.took_ms != null ? `looked in ${count(doc.took_ms)} ms` : ''}</span><span>look ${count(doc.seq)}</span><span><a href="status.json">this page as JSON</a></span><span>${mayAct ? 'may act' : document.documentElement.dataset.acts === 'yes' ? 'reads only: open the address with the token, as cdc serve printed it' : 'reads only; cdc serve --act lets it act'}</span>`);
}
