-- name: append
-- Append one audit row.
INSERT INTO audit (tenant_id, user_id, action, fields)
VALUES (%(tenant_id)s, %(user_id)s, %(action)s, %(fields)s);

-- name: append_to_all
-- Append one audit row to every tenant's.
INSERT INTO audit (tenant_id, user_id, action, fields)
SELECT tenant_id, %(user_id)s, %(action)s, %(fields)s FROM tenants;

-- name: add_to_load
-- Add counts to the one row of the load that a source is under; a row of its own when none is running.
INSERT INTO audit AS kept (audit_id, tenant_id, user_id, action, fields)
SELECT coalesce('load-' || r.run_id, uuidv7()::text), %(tenant_id)s,
       'source:' || coalesce(s.source_type || ':' || s.name, w.source_id), 'access.load',
       jsonb_strip_nulls(jsonb_build_object('source_id', w.source_id, 'run_id', r.run_id)) || %(counts)s
FROM (VALUES (%(source_id)s::text)) AS w (source_id)
LEFT JOIN sources s ON s.source_id = w.source_id
LEFT JOIN LATERAL (
    SELECT run_id FROM sync_runs WHERE source_id = w.source_id AND status = 'running' ORDER BY started_at DESC LIMIT 1
) r ON true
ON CONFLICT (audit_id) DO UPDATE SET
    acted_at = now(),
    fields = kept.fields || (
        SELECT jsonb_object_agg(more.key, coalesce((kept.fields ->> more.key)::bigint, 0) + more.value::bigint)
        FROM jsonb_each_text(%(counts)s) AS more);

-- name: events
-- List what was done, the newest first: of one person or program, of some actions, since an instant.
SELECT acted_at, user_id, action, fields FROM audit
WHERE tenant_id = %(tenant_id)s AND (%(who)s = '' OR user_id = %(who)s)
  AND starts_with(action, %(action)s) AND acted_at >= coalesce(%(since)s::timestamptz, '-infinity')
  AND (%(about)s = '' OR fields @> jsonb_build_object('user_id', %(about)s) OR fields @> jsonb_build_object('member', %(about)s))
ORDER BY acted_at DESC, audit_id DESC LIMIT %(limit)s;
