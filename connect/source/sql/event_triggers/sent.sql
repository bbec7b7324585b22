-- The tables that publications of ours send whole, as a subquery: pubname, relid.
-- Only publications that send whole tables count: changes that one leaves out for a while are lost, and nothing else
-- shows it.
(
    SELECT p.pubname, r.prrelid AS relid FROM {pipelines} l JOIN pg_publication p ON p.pubname = l.publication
      JOIN pg_publication_rel r ON r.prpubid = p.oid
     WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND p.pubviaroot
       AND r.prqual IS NULL AND r.prattrs IS NULL)
