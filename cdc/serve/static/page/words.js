/** Times, sizes and counts as the command line writes them. */

import { choices, now } from './state.js';

export const MIN = 60, HOUR = 3600, DAY = 86400;
const number = new Intl.NumberFormat('en-US');

export const count = (n) => n == null ? '–' : number.format(Math.round(n));
export function short(n) {
  if (n == null || n < 1e4) return count(n);
  if (n < 1e6) return `${(n / 1e3).toFixed(0)} k`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} M` : `${(n / 1e9).toFixed(2)} G`;
}
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;

/** 0.4 s, 40 s, 12 min, 3 h 20 min, 2 d 5 h (cdc/serve/words.py writes the same). */
export function span(s) {
  if (s == null) return '–';
  if (s < 9.95) return `${s.toFixed(1)} s`;
  s = Math.round(s);
  if (s < 2 * MIN) return `${s} s`;
  if (s < 2 * HOUR) return `${Math.floor(s / MIN)} min`;
  if (s < 2 * DAY) return `${Math.floor(s / HOUR)} h ${Math.floor(s % HOUR / MIN)} min`;
  const hours = s < 10 * DAY ? Math.floor(s % DAY / HOUR) : 0;
  return `${Math.floor(s / DAY)} d${hours ? ` ${hours} h` : ''}`;
}

export const seconds = (iso) => Math.max((now() - Date.parse(iso)) / 1000, 0);
export const secondsLeft = (iso) => Math.max((Date.parse(iso) - now()) / 1000, 0);

/** Coarser than `span`: nobody needs the minutes of yesterday; the title has them. */
export function ago(iso) {
  const s = Math.round(seconds(iso));
  if (s < 2) return 'now';
  if (s < 2 * MIN) return `${s} s ago`;
  if (s < 2 * HOUR) return `${Math.floor(s / MIN)} min ago`;
  return s < 2 * DAY ? `${Math.floor(s / HOUR)} h ago` : `${Math.floor(s / DAY)} d ago`;
}

export function bytes(n) {
  if (n == null) return '–';
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (n >= 1024 && i < 5) { n /= 1024; i++; }
  return `${i && n < 100 ? n.toFixed(1).replace('.0', '') : Math.round(n)} ${units[i]}`;
}

const two = (n) => String(n).padStart(2, '0');
export function clock(iso, withSeconds = true) {
  const d = new Date(iso);
  const [h, m, s] = choices.utc ? [d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()] : [d.getHours(), d.getMinutes(), d.getSeconds()];
  return `${two(h)}:${two(m)}${withSeconds ? `:${two(s)}` : ''}`;
}
export const zone = () => choices.utc ? 'UTC' : '';
export const day = (iso) => new Date(iso).toLocaleDateString('en-GB', { weekday: 'short', day: 'numeric', month: 'short', timeZone: choices.utc ? 'UTC' : undefined });
/** A clock time, with its day where it is not of the last 24 h. */
export const moment = (iso) => Math.abs(now() - Date.parse(iso)) > DAY * 1000 ? `${day(iso)}, ${clock(iso, false)}` : clock(iso, false);

/** Texts of the server have no ageing numbers: {left} is the time to `deadline`, {age} the time since `since`. */
export const fill = (text, o) => (text ?? '').replace('{left}', () => span(secondsLeft(o.deadline))).replace('{age}', () => span(Math.round(seconds(o.since))));
