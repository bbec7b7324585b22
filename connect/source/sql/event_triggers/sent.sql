-- The tables that publications of ours send, as a subquery: pubname, relid, and label: the publication, and behind a tab
-- a digest of the rows and columns that it sends if these are not all. A publication that sends other rows or columns for
-- a while has another label meanwhile; one that leaves operations out does not count: those changes are lost, and nothing
-- else shows it.
(
    SELECT p.pubname, r.prrelid AS relid,
           p.pubname || CASE WHEN r.prqual IS NULL AND r.prattrs IS NULL THEN '' ELSE chr(9) || left(encode(sha256(
               convert_to(coalesce(r.prqual::text, '') || ' ' || coalesce(r.prattrs::text, ''), 'UTF8')), 'hex'), 16)
           END AS label FROM {pipelines} l JOIN pg_publication p ON p.pubname = l.publication
      JOIN pg_publication_rel r ON r.prpubid = p.oid
     WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND p.pubviaroot)
