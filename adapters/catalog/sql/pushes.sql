-- name: pushed_source
-- Read the source that a push is for.
SELECT tenant_id, source_id, source_type, name, collection, options FROM sources WHERE source_id = %(source_id)s;

-- name: record_push
-- Record a verified push; one that is known already changes nothing.
INSERT INTO pushes (source_id, push_id, changed_ids) VALUES (%(source_id)s, %(push_id)s, %(changed_ids)s)
ON CONFLICT DO NOTHING;

-- name: waiting_pushes
-- List a source's pushes that nobody acted on yet, the oldest first.
SELECT push_id, changed_ids FROM pushes WHERE source_id = %(source_id)s AND settled_at IS NULL
ORDER BY received_at LIMIT %(limit)s;

-- name: waiting_sources
-- List the sources whose pushes wait.
SELECT DISTINCT source_id FROM pushes WHERE settled_at IS NULL ORDER BY 1;

-- name: settle_pushes
-- Note that pushes were acted on.
UPDATE pushes SET settled_at = now() WHERE source_id = %(source_id)s AND push_id = ANY(%(push_ids)s);

-- name: forget_pushes
-- Forget pushes that nobody sends again any more: retries end after an hour, replays are refused by their age.
DELETE FROM pushes WHERE source_id = %(source_id)s AND settled_at < now() - interval '1 day';

-- name: forget_runs
-- Keep a source's newest runs: every batch of pushes is one.
DELETE FROM sync_runs WHERE source_id = %(source_id)s AND status <> 'running' AND run_id NOT IN (
    SELECT run_id FROM sync_runs WHERE source_id = %(source_id)s ORDER BY started_at DESC, run_id DESC LIMIT %(kept)s);
