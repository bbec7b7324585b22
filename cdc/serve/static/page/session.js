/** The token in the address's fragment, which no server is sent, becomes a cookie that no script reads. */

import { page } from './state.js';

/** Returns whether this browser is let in now. */
export async function signIn() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return page.mayAct;
  history.replaceState(null, '', location.pathname + location.search);
  const answer = await fetch('session', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token }) }).catch(() => null);
  if (answer?.ok) page.mayAct = (await answer.json()).may_act;
  return Boolean(answer?.ok);
}
