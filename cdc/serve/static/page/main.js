/** The page of `cdc serve`: one status document, painted again where it changed. No framework, no build step; state.js is
    what it knows, stream.js how it learns of it, and each other file paints one part. */

import { $ } from './html.js';
import { page } from './state.js';
import { drawCharts } from './parts/charts.js';
import { openFromHash, paintDrawer } from './parts/drawer.js';
import { paintFollowers, paintViews } from './parts/followers.js';
import { setView, watchKeys } from './keys.js';
import { paintNav, watchSections } from './parts/nav.js';
import { paintLink, paintProblems, paintVerdict } from './parts/now.js';
import { paintPath } from './parts/path.js';
import { paintFoot, paintLetters, paintTimeline, paintVerifications } from './parts/records.js';
import { signIn } from './session.js';
import { paintSlot } from './parts/slot.js';
import { connect } from './stream.js';
import { paintTables, watchGrid } from './parts/tables.js';
import { watchTrace } from './parts/trace.js';

const PARTS = [paintNav, paintVerdict, paintProblems, paintPath, paintSlot, paintFollowers, paintTables, paintViews, paintLetters, paintVerifications, paintTimeline, paintDrawer, paintFoot];
const TICK_MS = 1000;

function paint() {
  paintLink();
  // a hidden tab shows its title and icon alone
  if (!page.doc || page.isHeld || document.hidden) return;
  for (const part of PARTS) part();
}
let isFirst = true;
function receive(isNew) {
  paint();
  if (isNew && !page.isHeld) drawCharts();
  if (isFirst) { isFirst = false; openFromHash(); }
}

setView();
watchKeys(paint);
watchGrid();
watchSections();
watchTrace();
addEventListener('hashchange', openFromHash);
document.addEventListener('visibilitychange', paint);
await signIn();
connect(receive);
setInterval(paint, TICK_MS);
