/** Questions 1 to 3: is this page true, is something wrong, what needs me. */

import { $, attribute, command, html, icon, put, withCode } from '../html.js';
import { byOrder, page } from '../state.js';
import { isOld, levelOf } from '../states.js';
import { clock, DAY, day, fill, seconds, secondsLeft, span, zone } from '../words.js';
import { actButton } from '../verbs.js';

const BROKEN_MS = 3500, SILENT_MS = 12000;

/** Whether the page is live, by connection, beats and the document's age. */
export function findTrouble() {
  const at = performance.now(), isBroken = page.brokenSince != null && at - page.brokenSince > BROKEN_MS;
  if (isBroken || at - page.heardAt > SILENT_MS) return 'lost';
  return page.doc && isOld(page.doc.at) ? 'old' : null;
}

const bar = (shape, title, text) => html`<div class="linkbar">${icon(shape)}<div class="grow"><b>${title}</b><span>${text}</span></div>${command('cdc status')}</div>`;

export function paintLink() {
  page.trouble = findTrouble();
  document.documentElement.toggleAttribute('data-old', page.trouble != null);
  const { doc, trouble } = page, since = doc ? `${clock(doc.at)} ${zone()}` : '';
  if (trouble === 'lost') put('link', bar('silent', 'This page is not live: cdc serve does not answer', `${doc ? `What you see is from ${since}. ` : ''}It connects again by itself; the pipeline does not depend on this page.`));
  else if (trouble) put('link', bar('unknown', `This page is not live: cdc serve answers, but has not looked at the pipeline since ${since}`, 'Its watch has ended or hangs. Nothing here says how things stand now.'));
  else put('link', '');
  if (!doc) return;
  paintLive();
  if (trouble) setTitle('unknown', 'not live');
  else setTitle(doc.verdict.level, fill(doc.verdict.title, doc.verdict));
}
function paintLive() {
  const { doc, trouble } = page, age = seconds(doc.at);
  if (trouble) put('live', html`<b class="s-now">${icon(trouble === 'lost' ? 'silent' : 'unknown')}not live</b><span class="more">from ${clock(doc.at)}</span>`);
  else if (page.isHeld) put('live', html`<b class="s-know">${icon('paused')}held still</b><span class="more">p goes on</span>`);
  else put('live', html`<b class="s-ok">${icon('ok')}live</b><span class="more">looked ${age < 1.5 ? 'just now' : `${Math.round(age)} s ago`}, every ${doc.every_seconds} s</span>`);
}

/** level → [sign in the title, colour, shape] of the tab */
const TABS = {
  now: ['■', '#d0213f', '<path d="M10 2h12l8 8v12l-8 8H10l-8-8V10z"/>'], today: ['▲', '#c77700', '<path d="M16 3l14 26H2z"/>'], know: ['◆', '#4169c2', '<path d="M16 2l14 14-14 14L2 16z"/>'],
  ok: ['●', '#128a82', '<circle cx="16" cy="16" r="13"/>'], busy: ['◔', '#5847c9', '<circle cx="16" cy="16" r="13"/>'],
  new: ['○', '#7a808c', '<circle cx="16" cy="16" r="11" fill="none" stroke="#7a808c" stroke-width="5"/>'],
  unknown: ['?', '#7a808c', '<circle cx="16" cy="16" r="11" fill="none" stroke="#7a808c" stroke-width="5" stroke-dasharray="7 6"/>'],
};
export const signOf = (level) => (TABS[level] ?? TABS.unknown)[0];
function setTitle(level, text) {
  const [sign, colour, shape] = TABS[level] ?? TABS.unknown, title = `${sign} ${text} · ${page.doc.pipeline.name}`;
  if (document.title === title) return;
  document.title = title;
  $('icon').href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="${colour}">${shape}</svg>`)}`;
}

let said = '';
export function paintVerdict() {
  const { doc } = page, level = page.trouble ? 'unknown' : doc.verdict.level, title = `${page.trouble ? `Last known, at ${clock(doc.at)}: ` : ''}${fill(doc.verdict.title, doc.verdict)}`;
  put('verdict', html`<div class="verdict"><span class="s-${level === 'new' || page.trouble ? 'quiet' : level}">${icon(levelOf(level)[0])}</span><div><h1 id="verdict-title">${title}</h1><p>${fill(doc.verdict.detail, doc.verdict)}</p></div></div>`);
  // spoken when level or problems change, not when a number does
  const key = [level, ...Object.keys(doc.problems)].join();
  if (key !== said) { said = key; $('said').textContent = title; }
}

function timeOf(p) {
  if (p.deadline) { const left = secondsLeft(p.deadline); return html`<b>${left > 0 ? span(left) : 'none'} left</b>until ${clock(p.deadline, false)}`; }
  return p.since ? html`<b>${span(Math.round(seconds(p.since)))}</b>since ${seconds(p.since) > DAY ? day(p.since) : clock(p.since, false)}` : '';
}
const SECTIONS = { letters: 'letters', verification: 'verification', tables: 'tables', slot: 'freshness', pipeline: 'foot' };
function showButton({ kind, name } = {}) {
  if (!kind) return '';
  if (SECTIONS[kind]) return html`<a class="btn plain" href="#${SECTIONS[kind]}">Show</a>`;
  return html`<button type="button" class="btn plain" data-open="${kind}:${name}">Show ${name}</button>`;
}
export const remedyOf = (p) => [p.file ? command(p.file, 'cdc.yaml') : '', p.command ? command(p.command, p.language) : ''];
function problem([id, p], i) {
  const [shape, word] = levelOf(p.level);
  return html`<details class="problem ${p.level}" data-key="${id}"${attribute('open', i === 0 && p.level === 'now' ? '' : null)}>
    <summary><span class="s-${p.level}">${icon(shape)}</span><span><span class="what"><span class="sr">${word}: </span>${fill(p.what, p)}</span><span class="hurts">${fill(p.hurts, p)}</span></span><span class="when">${timeOf(p)}</span>${icon('more', 'turn')}</summary>
    <div class="body"><div><p class="why">${withCode(fill(p.why, p))}</p><p>${withCode(fill(p.remedy, p))}</p><div class="acts">${p.verb ? actButton(p.verb, p.object.name) : ''}${showButton(p.object)}</div></div>${p.file || p.command ? html`<div>${remedyOf(p)}</div>` : ''}</div></details>`;
}
const step = (s) => html`<li><span class="s-${s.done ? 'ok' : 'quiet'}">${icon(s.done ? 'ok' : 'new')}</span><span>${s.text}${s.done ? html` <span class="dim">done</span>` : ''}</span>${command(s.command)}</li>`;
export function paintProblems() {
  const { doc } = page, list = byOrder(doc.problems);
  const steps = doc.steps?.length ? html`<div class="card"><div class="card-head"><div><h2>Start it</h2><p class="sub">Each step may be run again; it goes on where it was.</p></div></div><ol class="start">${doc.steps.map(step)}</ol></div>` : '';
  put('problems', [list.length ? html`<div class="problems" role="group" aria-label="What needs you">${list.map(problem)}</div>` : '', steps]);
}
