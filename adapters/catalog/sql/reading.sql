-- name: access_state
-- Say whether a person is registered or was removed, at which access revision and SpiceDB token the tenant stands, and
-- which queued event checks must still wait for.
SELECT t.access_revision, p.token, u.removed_at IS NOT NULL,
       coalesce(floor(extract(epoch FROM u.readmitted_at))::bigint, 0),
       (SELECT max(outbox_id) FROM outbox WHERE published_at IS NULL AND gates_checks)
FROM tenants t
JOIN users u ON u.tenant_id = t.tenant_id AND u.user_id = %(user_id)s
CROSS JOIN permission_state p
WHERE t.tenant_id = %(tenant_id)s;

-- name: permitted_profiles
-- Walk from a person up through nested groups, circles included, to the profiles that admit them and do not deny them.
WITH RECURSIVE closure (subject_type, subject_name) AS (
    SELECT 'user'::text COLLATE "C", %(user_id)s::text COLLATE "C"
    UNION
    SELECT 'group'::text COLLATE "C", t.resource_name
    FROM closure c
    JOIN tuples t ON t.tenant_id = %(tenant_id)s AND t.resource_type = 'group' AND t.relation = 'member'
        AND t.subject_type = c.subject_type AND t.subject_name = c.subject_name
), permitted AS (
    SELECT t.resource_name::integer AS profile_id
    FROM closure c
    JOIN tuples t ON t.tenant_id = %(tenant_id)s AND t.resource_type = 'profile'
        AND t.subject_type = c.subject_type AND t.subject_name = c.subject_name
    GROUP BY t.resource_name
    HAVING bool_and(t.relation = 'viewer')  -- one grouping, no join that a wrong estimate could make quadratic
)
SELECT coalesce(array_agg(profile_id ORDER BY profile_id), '{}') FROM permitted;

-- name: permission_gate
-- Say which queued event checks must still wait for, up to a given one, and the newest acknowledged token.
SELECT (SELECT max(outbox_id) FROM outbox
        WHERE published_at IS NULL AND gates_checks AND outbox_id <= %(up_to)s), token
FROM permission_state;

-- name: hydrate
-- Load a tenant's candidates that are shown and not deleted, in the candidates' order, with their profiles.
SELECT w.place, c.chunk_id, d.document_id, d.source_id, v.source_type, v.collection, v.title, c.text, c.heading_path,
       c.anchor_kind, c.anchor_start, c.anchor_end, c.anchor_label, v.permalink, c.ordinal, c.byte_start, c.byte_end,
       v.group_id, v.content_sha256, d.profile_id, v.author, v.updated_at
FROM unnest(%(chunk_ids)b::text[]) WITH ORDINALITY AS w (chunk_id, place)
JOIN chunks c ON c.chunk_id = w.chunk_id
JOIN documents d ON d.document_id = c.document_id AND d.version_id = c.version_id
JOIN versions v ON v.version_id = d.version_id
WHERE d.tenant_id = %(tenant_id)s AND d.deleted_at IS NULL
-- The sum makes it a sort: rows that come all at once wake their reader less often than rows that trickle.
ORDER BY w.place + 0;

-- name: document_chunks
-- Load all chunks of a tenant's document that is shown and not deleted, in order, with its profile.
SELECT c.ordinal, c.chunk_id, d.document_id, d.source_id, v.source_type, v.collection, v.title, c.text,
       c.heading_path, c.anchor_kind, c.anchor_start, c.anchor_end, c.anchor_label, v.permalink, c.ordinal,
       c.byte_start, c.byte_end, v.group_id, v.content_sha256, d.profile_id, v.author, v.updated_at
FROM documents d
JOIN versions v ON v.version_id = d.version_id
JOIN chunks c ON c.version_id = d.version_id
WHERE d.document_id = %(document_id)s AND d.tenant_id = %(tenant_id)s AND d.deleted_at IS NULL
ORDER BY c.ordinal;

-- name: record_answer
-- Store an answer.
INSERT INTO answers (tenant_id, user_id, question, text, mode, model, is_abstained, trace_id)
VALUES (%(tenant_id)s, %(user_id)s, %(question)s, %(text)s, %(mode)s, %(model)s, %(is_abstained)s, %(trace_id)s)
RETURNING answer_id;

-- name: record_citation
-- Store one citation of an answer.
INSERT INTO citations (answer_id, number, fragment_id, document_id, tenant_id, user_id, quote)
VALUES (%(answer_id)s, %(number)s, %(fragment_id)s, %(document_id)s, %(tenant_id)s, %(user_id)s, %(quote)s)
ON CONFLICT (answer_id, number) DO NOTHING;

-- name: record_feedback
-- Store or change a thumb on the asker's own answer.
INSERT INTO feedback (answer_id, user_id, is_helpful, comment)
SELECT a.answer_id, a.user_id, %(is_helpful)s, %(comment)s
FROM answers a
WHERE a.answer_id = %(answer_id)s AND a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s
ON CONFLICT (answer_id) DO UPDATE
SET is_helpful = excluded.is_helpful, comment = excluded.comment, given_at = now();

-- name: ping
-- Touch a table of the newest migration.
SELECT token FROM permission_state;
