-- One chunk leased and completed, with the statements of the store on PostgreSQL: what pgbench makes of them.
SELECT j.id AS job, j.tenant AS tenant, j.due, t.given,
    EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'waiting' AND c.until <= n.now),
    (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > n.now) AS running,
    EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until <= n.now), n.now
  FROM meta m CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
  LEFT JOIN (jobs j JOIN tenants t ON t.id = j.tenant) ON j.finished IS NULL
  WHERE m.name = 'definition' ORDER BY t.given, j.due LIMIT 1 \gset
WITH free AS (SELECT job, ordinal FROM chunks
    WHERE job = :job AND state = 'waiting' AND until <= :now
    ORDER BY ordinal LIMIT 1 FOR UPDATE SKIP LOCKED),
  taken AS (UPDATE chunks c SET state = 'leased', token = nextval('tokens'), attempts = attempts + 1,
      until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000
    FROM free WHERE c.job = free.job AND c.ordinal = free.ordinal RETURNING c.*),
  charged AS (UPDATE tenants SET given = greatest(given, 0) + (SELECT sum(greatest(documents + length / 8192, 1)) * 1000 / 1 FROM taken)::bigint
    WHERE id = :tenant AND EXISTS(SELECT 1 FROM taken)),
  begun AS (UPDATE jobs SET state = 'running' WHERE id = :job AND state = 'queued' AND EXISTS(SELECT 1 FROM taken))
SELECT ordinal, token, attempts, file, position, length, file_documents, documents_before, documents FROM taken ORDER BY ordinal \gset
BEGIN;
SET LOCAL synchronous_commit TO on;
SELECT setval('clock', greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value + 1, 1)),
  (SELECT value FROM meta WHERE name = 'definition') FROM clock;
DELETE FROM chunks WHERE job = :job AND ordinal = :ordinal AND token = :token AND state = 'leased';
SELECT id FROM tenants WHERE name = 'main';
INSERT INTO chunk_journals(job, ordinal, first, counts, file, file_start, lines) VALUES (:job, :ordinal, 0, '\x00000000000000000000', 0, 0, '');
COMMIT;
SELECT EXISTS(SELECT 1 FROM chunks WHERE job = :job AND state = 'waiting') OR EXISTS(SELECT 1 FROM chunks WHERE job = :job AND state = 'leased');
