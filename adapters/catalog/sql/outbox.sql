-- name: queue
-- Queue one event.
INSERT INTO outbox (tenant_id, topic, key, payload, gates_checks)
VALUES (%(tenant_id)s, %(topic)s, %(key)s, %(payload)s, %(gates_checks)s);

-- name: lock
-- Become the only consumer, if nobody else is; the number is arbitrary and ours.
SELECT pg_try_advisory_lock(7203002);

-- name: unlock
-- Let another consumer in.
SELECT pg_advisory_unlock(7203002);

-- name: listen
-- Hear of new events from now on.
LISTEN cortex_outbox;

-- name: take
-- Read the oldest events, of some topics or of all, that wait and are not parked.
SELECT outbox_id, topic, key, payload FROM outbox
WHERE published_at IS NULL AND parked_at IS NULL
  AND (cardinality(%(topics)s::text[]) = 0 OR topic = ANY(%(topics)s))
ORDER BY outbox_id
LIMIT %(limit)s;

-- name: acknowledge
-- Mark events done.
UPDATE outbox SET published_at = now(), parked_at = NULL WHERE outbox_id = ANY(%(outbox_ids)s);

-- name: keep_token
-- Keep the token that checks must be as fresh as.
UPDATE permission_state
SET token = %(token)s, acknowledged_at = now(), applied_outbox_id = greatest(applied_outbox_id, %(outbox_id)s);

-- name: fail
-- Count a failed attempt and park the event when there were enough.
UPDATE outbox
SET attempts = attempts + 1, reason = %(reason)s,
    parked_at = CASE WHEN attempts + 1 >= %(limit)s THEN now() END
WHERE outbox_id = %(outbox_id)s
RETURNING parked_at IS NOT NULL;

-- name: backlog
-- Count what waits and what is parked of some topics or of all, and say since when.
SELECT count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NOT NULL),
       coalesce(max(outbox_id) FILTER (WHERE parked_at IS NULL), 0), min(created_at)
FROM outbox
WHERE published_at IS NULL AND (cardinality(%(topics)s::text[]) = 0 OR topic = ANY(%(topics)s));

-- name: waits_up_to
-- Say whether an event of some topics, up to a given one, still waits.
SELECT EXISTS (SELECT FROM outbox
               WHERE published_at IS NULL AND parked_at IS NULL AND outbox_id <= %(outbox_id)s
                 AND (cardinality(%(topics)s::text[]) = 0 OR topic = ANY(%(topics)s)));

-- name: parked
-- List parked events with their reasons.
SELECT outbox_id, topic, key, attempts, reason, parked_at FROM outbox
WHERE published_at IS NULL AND parked_at IS NOT NULL
ORDER BY outbox_id;

-- name: drop_superseded
-- A parked profile change is over when a later one of the same document was queued.
UPDATE outbox o SET published_at = now(), parked_at = NULL
WHERE o.published_at IS NULL AND o.parked_at IS NOT NULL AND o.topic = 'document.profile'
  AND EXISTS (SELECT FROM outbox later
              WHERE later.topic = o.topic AND later.key = o.key AND later.outbox_id > o.outbox_id);

-- name: unpark
-- Let parked events of some topics be tried again.
UPDATE outbox SET parked_at = NULL, attempts = 0
WHERE published_at IS NULL AND parked_at IS NOT NULL AND topic = ANY(%(topics)s);

-- name: waiting_tuples
-- List every event about tuples that is not done, parked ones too: a whole reload contains them.
SELECT outbox_id FROM outbox WHERE published_at IS NULL AND topic = 'tuples' ORDER BY outbox_id;

-- name: prune
-- Forget events that were done long ago.
DELETE FROM outbox WHERE published_at < now() - interval '1 day';

-- name: hold_documents
-- Keep documents from being staged anew until the transaction ends.
SELECT document_id FROM documents WHERE document_id = ANY(%(document_ids)s) ORDER BY document_id FOR UPDATE;

-- name: unused_chunks
-- Of some chunk ids, list those that no version uses.
SELECT w.chunk_id FROM unnest(%(chunk_ids)s::text[]) AS w (chunk_id)
WHERE NOT EXISTS (SELECT FROM chunks c WHERE c.chunk_id = w.chunk_id);

-- name: relationships
-- Stream every tuple that SpiceDB must hold, circles among groups rewritten as `cycles.py` does.
-- In order: neighbours written together cost the embedded SpiceDB two thirds of the time and memory.
SELECT DISTINCT t.tenant_id, t.resource_type, coalesce(r.representative, t.resource_name), t.relation,
       t.subject_type, t.subject_name
FROM tuples t
LEFT JOIN group_cycles r
    ON t.resource_type = 'group' AND r.tenant_id = t.tenant_id AND r.group_name = t.resource_name
LEFT JOIN group_cycles s
    ON t.resource_type = 'group' AND t.subject_type = 'group'
   AND s.tenant_id = t.tenant_id AND s.group_name = t.subject_name
WHERE (%(tenant_id)s = '' OR t.tenant_id = %(tenant_id)s)
  AND NOT (t.resource_type = 'group' AND t.subject_type = 'group'
           AND coalesce(r.representative, t.resource_name) = coalesce(s.representative, t.subject_name))
UNION ALL
SELECT tenant_id, 'group', group_name, 'member', 'group', representative
FROM group_cycles
WHERE group_name <> representative AND (%(tenant_id)s = '' OR tenant_id = %(tenant_id)s)
ORDER BY 1, 2, 3, 4, 5, 6;
