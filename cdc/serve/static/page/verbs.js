/** Verbs: what will happen, what it costs, what stays; then what became of it, in the same place.

    The server makes each question, from the present state; a check that fails turns the button off. */

import { $, attribute, command, html, icon, put } from './html.js';
import { page } from './state.js';
import { clock } from './words.js';
import { toast } from './toast.js';

const NAMES = { restart: 'Restart', pause: 'Pause', resume: 'Resume', recopy: 'Copy again', replay: 'Replay', verify: 'Verify', rebuild: 'Fill anew' };
const POLL_MS = 1000;

/** The button of a verb that this server takes; nothing where it takes none. */
export function actButton(verb, on) {
  const takes = (document.documentElement.dataset.verbs ?? '').split(' ');
  return page.mayAct && takes.includes(verb) ? html`<button type="button" class="btn" data-do="verb" data-v="${verb}" data-on="${on}">${NAMES[verb]}…</button>` : '';
}

const line = (shape, colour, text) => html`<span class="state s-${colour}">${icon(shape)}${text}</span>`;
const address = (verb, on) => `verbs/${verb}?on=${encodeURIComponent(on)}`;
async function ask(path, options) {
  const answer = await fetch(path, { cache: 'no-store', ...options });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.error ?? `the server answers ${answer.status}`);
  return told;
}

/** The number of the newest question: what an earlier one has begun is told in its own dialog only. */
let newest = 0;

export async function openQuestion(verb, on) {
  if (page.trouble) { toast('Off while the page is not live'); return; }
  let q;
  try { q = await ask(address(verb, on)); } catch (error) { toast(error.message); return; }
  newest++;
  put('confirm', html`<form method="dialog"><h2 id="confirm-title">${q.title}</h2>${q.check ? html`<div class="note-box s-now"><span><span class="s-now">${icon('stopped')}</span> ${q.check}</span></div>` : ''}
    <h3>What happens</h3><ol class="what">${q.what.map((w) => html`<li>${w}</li>`)}</ol><h3>What it costs</h3><p>${q.cost}</p><h3>What stays as it is</h3><p>${q.stays}</p>${q.command ? html`<h3>The same on the command line</h3>${command(q.command)}` : ''}
    <div class="out" id="confirm-out" role="status"></div><div class="acts"><button class="btn" value="cancel" autofocus>Cancel</button><button type="button" class="btn main" data-do="confirm" data-v="${verb}" data-on="${on}"${attribute('disabled', q.check ? '' : null)}>${q.button}</button></div></form>`);
  // a question that was asked before has its button as it was left
  const [cancel, main] = $('confirm').querySelectorAll('.acts button');
  main.disabled = Boolean(q.check);
  cancel.textContent = 'Cancel';
  put('confirm-out', '');
  $('confirm').showModal();
}

/** The dialog stays: a person sees what became of it. */
export async function confirmed(verb, on, button) {
  const mine = newest, tell = (content) => { if (mine === newest) put('confirm-out', content); };
  button.disabled = true;
  tell(line('copying', 'busy', 'asked; waits for the answer'));
  try {
    let run = await ask(address(verb, on), { method: 'POST' });
    while (!run.ended_at) {
      tell([line('copying', 'busy', `runs since ${clock(run.began_at)}`), said(run)]);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      run = await ask(`runs/${run.id}`);
    }
    tell([run.ok ? line('ok', 'ok', `done at ${clock(run.ended_at)}`) : line('stopped', 'now', `failed at ${clock(run.ended_at)}`), said(run)]);
    if (mine !== newest || !$('confirm').open) toast(`${NAMES[verb]} ${on}: ${run.ok ? 'done' : 'failed'}`);
  } catch (error) {
    tell(line('stopped', 'now', error.message));
  }
  if (mine === newest) $('confirm').querySelector('[value=cancel]').textContent = 'Close';
}
const said = (run) => run.lines?.length ? html`<ul class="said">${run.lines.map((text) => html`<li>${text}</li>`)}</ul>` : '';
