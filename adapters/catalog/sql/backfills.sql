-- name: claim_backfill
-- Record a submission, or take over one that ended without success or has not been heard of; no row: somebody has it.
INSERT INTO backfills (submission_id, tenant_id, source_id, ray_address, status)
VALUES (%(submission_id)s, %(tenant_id)s, %(source_id)s, %(ray_address)s, 'running')
ON CONFLICT (submission_id) DO UPDATE
SET status = 'running', ray_address = excluded.ray_address, submitted_at = now(), heard_at = now(), finished_at = NULL
WHERE backfills.status IN ('failed', 'stopped') OR backfills.heard_at < now() - %(silence_s)s * interval '1 second'
RETURNING submission_id;

-- name: active_backfill
-- Find a submission of a source that is under way.
SELECT submission_id FROM backfills
WHERE source_id = %(source_id)s AND status = 'running'
  AND heard_at >= now() - %(silence_s)s * interval '1 second'
ORDER BY submitted_at LIMIT 1;

-- name: hear_backfill
-- Say that a submission lives, and add to its log, of which the end is kept.
UPDATE backfills SET heard_at = now(), log = right(log || %(lines)s, %(log_chars)s)
WHERE submission_id = %(submission_id)s;

-- name: finish_backfill
-- Close a submission.
UPDATE backfills SET status = %(status)s, heard_at = now(), finished_at = now()
WHERE submission_id = %(submission_id)s;

-- name: list_backfills
-- List a tenant's submissions, newest first, each with the newest run of its source since.
SELECT b.submission_id, b.source_id, s.name AS source, b.ray_address, b.log, b.submitted_at, b.finished_at,
       CASE WHEN b.status = 'running' AND b.heard_at < now() - %(silence_s)s * interval '1 second'
            THEN 'lost' ELSE b.status END AS status,
       r.run_id, coalesce(r.counts, '{}') AS counts
FROM backfills b
JOIN sources s USING (source_id)
LEFT JOIN LATERAL (
    SELECT run_id, counts FROM sync_runs
    WHERE source_id = b.source_id AND started_at BETWEEN b.submitted_at AND coalesce(b.finished_at, now())
    ORDER BY started_at DESC LIMIT 1
) r ON true
WHERE b.tenant_id = %(tenant_id)s AND (%(submission_id)s = '' OR b.submission_id = %(submission_id)s)
ORDER BY b.submitted_at DESC, b.submission_id;

-- name: last_succeeded_run
-- Name the newest run of a source that did all.
SELECT run_id FROM sync_runs
WHERE source_id = %(source_id)s AND status = 'succeeded' ORDER BY started_at DESC LIMIT 1;
