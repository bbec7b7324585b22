/** What the page knows: the newest status document, the server's clock, and what the reader has chosen. */

const query = new URLSearchParams(location.search);
const stored = (key, fallback) => { try { return localStorage.getItem(`cdc.${key}`) ?? fallback; } catch { return fallback; } };
export const store = (key, value) => { try { localStorage.setItem(`cdc.${key}`, value); } catch { /* a private window */ } };

export const page = {
  doc: null,
  /** the server's clock in ms, and when it was heard by the browser's own */
  clock: Date.now(), clockHeard: performance.now(),
  /** when anything came by the stream; since when its connection is broken */
  heardAt: performance.now(), brokenSince: null,
  /** null: live; 'lost': the server does not answer; 'old': it answers and has not looked */
  trouble: null,
  mayAct: document.documentElement.dataset.act === 'yes', isHeld: false,
};

export const choices = {
  theme: query.get('theme') ?? stored('theme', ''), utc: stored('utc', '1') === '1', bytes: stored('bytes', '') === '1',
  percentile: 'p99', filter: '', chip: 'all', sort: 'urgency', up: true, drawer: null,
};

export const isDark = () => choices.theme ? choices.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;

/** Now, in ms, by the server's clock: a page never trusts the browser's. */
export const now = () => page.clock + performance.now() - page.clockHeard;
export function hearClock(iso) { page.clock = Date.parse(iso); page.clockHeard = performance.now(); }

const ROOMS = ['problems', 'parts', 'slot', 'followers', 'tables', 'views', 'letters', 'verifications'];
/** What is absent is unknown: no part of the page asks whether a room of the document is there. */
export function complete(doc) {
  const empty = Object.fromEntries(ROOMS.map((room) => [room, {}]));
  const series = { step_seconds: 60, freshness: {}, slot_bytes: [], changes_per_minute: {}, ...doc.series };
  series.changes_per_minute.arrived ??= [];
  return { ...empty, events: [], ...doc, series };
}

/** RFC 7396: null removes, objects merge, all else replaces. */
export function merge(target, patch) {
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete target[key];
    else if (typeof value !== 'object' || Array.isArray(value)) target[key] = value;
    else target[key] = merge(isObject(target[key]) ? target[key] : {}, value);
  }
  return target;
}
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

export const byOrder = (map) => Object.entries(map).sort(([, a], [, b]) => (a.order ?? 0) - (b.order ?? 0));
