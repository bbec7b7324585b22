-- A condition outside of event triggers: only tables whose row nobody holds, or that have none.
AND c.relkind = ANY({kinds}) AND (
                    (n.nspname, c.relname) IN (SELECT * FROM unnest({schemas}::text[], {tables}::text[]))
                    OR NOT EXISTS (SELECT FROM {history} h WHERE h.schema = n.nspname AND h."table" = c.relname))
