-- A machine acquired by tag and released, in two statements: what pgbench makes of them.
\set turn random(0, 500)
WITH one AS (SELECT r.key FROM r_machine r WHERE r.tenant = 1 AND r.alive AND left(r.s_status, 600) = 'Ready' AND r.s_status = 'Ready'
    AND EXISTS (SELECT 1 FROM tagged t WHERE t.tenant = 1 AND t.key = r.key AND t.value = 'vmx-or-svm')
    OFFSET :turn LIMIT 1 FOR UPDATE OF r SKIP LOCKED)
UPDATE r_machine m SET s_status = 'Allocated', s_owner = 'pgbench', revision = m.revision + 1 FROM one WHERE m.tenant = 1 AND m.key = one.key RETURNING m.key \gset
UPDATE r_machine SET s_status = 'Ready', s_owner = NULL, revision = revision + 1 WHERE tenant = 1 AND key = :key AND s_status = 'Allocated' RETURNING key;
