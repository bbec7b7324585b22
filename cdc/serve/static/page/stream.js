/** The stream: the document once, then merge patches (RFC 7396), points of the charts, and beats.

    `seq` names the document that we have, with the run of the server that sent it: EventSource sends it when it connects again. */

import { complete, hearClock, merge, page } from './state.js';

const RETRY_MS = 2000, POINTS = 360;

function heard(e) {
  page.heardAt = performance.now();
  page.brokenSince = null;
  return e.data ? JSON.parse(e.data) : null;
}
function append(points) {
  const { series } = page.doc, lines = [[series.slot_bytes, points.slot_bytes], [series.changes_per_minute.arrived, points.arrived]];
  for (const [name, p] of Object.entries(points.freshness)) {
    const line = series.freshness[name] ??= { p50: Array(series.slot_bytes.length).fill(null), p99: Array(series.slot_bytes.length).fill(null) };
    lines.push([line.p50, p.p50], [line.p99, p.p99]);
  }
  for (const [line, value] of lines) { line.push(value ?? null); line.splice(0, line.length - POINTS); }
  series.start = points.start;
}

/** Ask for the document, compressed, then for what follows it. `receive(isNew)`: it has changed; `isNew`: charts, too. */
export function connect(receive) {
  const take = (doc) => {
    // another version of cdc serves other files
    if (page.doc && page.doc.pipeline.version !== doc.pipeline.version) { location.reload(); return; }
    page.doc = complete(doc);
    receive(true);
  };
  /** A server that was started with another token lets nobody read until he has it: the door says so. */
  const reopen = () => fetch('status.json', { method: 'HEAD' }).then((answer) => answer.status === 403 ? location.reload() : open(), open);
  let stream, last = document.documentElement.dataset.seen ?? '';
  const open = () => {
    stream = new EventSource(`events?after=${encodeURIComponent(last)}`);
    const on = (name, then) => stream.addEventListener(name, (e) => { const told = heard(e); last = e.lastEventId || last; then(told); });
    on('snapshot', ({ now, document: doc }) => { hearClock(now); take(doc); });
    // a patch takes a room away whose last thing is gone
    on('patch', (patch) => { if (page.doc) { page.doc = complete(merge(page.doc, patch)); receive(false); } });
    on('points', (points) => { if (page.doc) { append(points); receive(true); } });
    on('beat', ({ now }) => hearClock(now));
    stream.onopen = () => { page.heardAt = performance.now(); page.brokenSince = null; };
    stream.onerror = () => {
      page.brokenSince ??= performance.now();
      // the browser tries again by itself, unless the server has refused
      if (stream.readyState === EventSource.CLOSED) setTimeout(reopen, RETRY_MS);
    };
  };
  fetch('status.json', { cache: 'no-store' }).then(async (answer) => {
    if (!answer.ok) return;
    last = answer.headers.get('X-Cdc-Seen') ?? '';
    hearClock(answer.headers.get('X-Cdc-Now'));
    page.heardAt = performance.now();
    take(await answer.json());
  }).catch(() => { page.brokenSince = performance.now(); }).finally(open);
  addEventListener('pagehide', () => stream?.close());
  addEventListener('pageshow', (e) => { if (e.persisted) open(); });
}
