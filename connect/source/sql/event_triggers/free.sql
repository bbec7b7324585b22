-- SKIP LOCKED: a session that holds a row's lock is about to write a newer shape than we can see.
SELECT schema, "table" FROM {history} WHERE shape::jsonb->>'kind' = ANY({kinds})
   FOR UPDATE SKIP LOCKED
