-- name: ensure_tenant
-- Create a tenant on first mention.
INSERT INTO tenants (tenant_id) VALUES (%(tenant_id)s) ON CONFLICT DO NOTHING;

-- name: ensure_source
-- Create a source or update its options.
INSERT INTO sources (source_id, tenant_id, source_type, name, collection, options)
VALUES (%(source_id)s, %(tenant_id)s, %(source_type)s, %(name)s, %(collection)s, %(options)s)
ON CONFLICT (source_id) DO UPDATE SET collection = excluded.collection, options = excluded.options
WHERE sources.tenant_id = excluded.tenant_id;

-- name: list_sources
-- List a tenant's sources with their document counts and newest run.
SELECT s.source_id, s.source_type, s.name, s.collection, s.options,
       (SELECT count(*) FROM documents d
        WHERE d.source_id = s.source_id AND d.deleted_at IS NULL AND d.version_id IS NOT NULL) AS n_documents,
       r.run_id, r.status, r.started_at, r.updated_at, r.finished_at, r.counts, r.failures, r.skipped
FROM sources s
LEFT JOIN LATERAL (
    SELECT * FROM sync_runs WHERE source_id = s.source_id ORDER BY started_at DESC, run_id DESC LIMIT 1
) r ON true
WHERE s.tenant_id = %(tenant_id)s
ORDER BY s.created_at, s.source_id;

-- name: close_interrupted_runs
-- A run still open when the next one starts was killed: say so.
UPDATE sync_runs
SET status = 'failed', finished_at = now(),
    failures = failures || '[{"path": "", "code": "run.interrupted", "reason": "the run was interrupted"}]'::jsonb
WHERE source_id = %(source_id)s AND status = 'running';

-- name: start_run
-- Open a sync run.
INSERT INTO sync_runs (source_id) VALUES (%(source_id)s) RETURNING run_id;

-- name: update_run
-- Publish a run's progress; says whether somebody asked it to stop.
UPDATE sync_runs SET counts = %(counts)s, updated_at = now() WHERE run_id = %(run_id)s
RETURNING stop_requested_at IS NOT NULL;

-- name: request_stop
-- Ask a tenant's run to stop, if it still runs.
UPDATE sync_runs r SET stop_requested_at = coalesce(stop_requested_at, now())
FROM sources s
WHERE r.run_id = %(run_id)s AND r.status = 'running' AND s.source_id = r.source_id AND s.tenant_id = %(tenant_id)s;

-- name: finish_run
-- Close a run.
UPDATE sync_runs
SET status = %(status)s, counts = %(counts)s, failures = %(failures)s, skipped = %(skipped)s, finished_at = now()
WHERE run_id = %(run_id)s;
