/** The page before the page, where reading needs the token as well. */

import { signIn } from './session.js';

if (await signIn()) location.reload();
