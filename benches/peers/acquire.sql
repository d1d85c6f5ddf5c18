-- A machine acquired and released, each one statement by key: what pgbench makes of the update alone, without finding it by tag and
-- without a log.
\set number random(1, 10000)
UPDATE r_machine SET s_status = 'Allocated', s_owner = 'pgbench', revision = revision + 1
  WHERE tenant = 1 AND key = 'node-' || lpad(:number::text, 8, '0') AND s_status = 'Ready' RETURNING key;
UPDATE r_machine SET s_status = 'Ready', s_owner = NULL, revision = revision + 1
  WHERE tenant = 1 AND key = 'node-' || lpad(:number::text, 8, '0') AND s_status = 'Allocated' RETURNING key;
