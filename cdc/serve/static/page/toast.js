/** One short line about what the reader has just done. */

import { $ } from './html.js';

let timer;
export function toast(text) {
  const box = $('toast');
  box.textContent = text;
  box.classList.add('on');
  clearTimeout(timer);
  timer = setTimeout(() => box.classList.remove('on'), 2200);
}
export async function copy(text) {
  try { await navigator.clipboard.writeText(text); toast('Copied'); } catch { toast('Select and copy it: this browser does not let the page do so'); }
}
