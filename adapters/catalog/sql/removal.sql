-- name: source
-- Read a source of a tenant by its id, or by its name or `type:name`.
SELECT source_id, source_type, name FROM sources
WHERE tenant_id = %(tenant_id)s AND %(named)s IN (source_id, name, source_type || ':' || name)
ORDER BY source_id;

-- name: source_counts
-- Count what the catalog holds of a source.
SELECT (SELECT count(*) FROM documents WHERE source_id = %(source_id)s AND version_id IS NOT NULL),
       (SELECT count(*) FROM chunks c JOIN documents d ON d.document_id = c.document_id WHERE d.source_id = %(source_id)s),
       (SELECT count(*) FROM edges WHERE source_id = %(source_id)s),
       (SELECT count(*) FROM tuples t JOIN documents d ON d.document_id = t.resource_name AND d.tenant_id = t.tenant_id
        WHERE d.source_id = %(source_id)s AND t.resource_type = 'document'),
       (SELECT count(*) FROM tuples WHERE source_id = %(source_id)s),
       (SELECT count(*) FROM citations ci JOIN documents d ON d.document_id = ci.document_id WHERE d.source_id = %(source_id)s),
       (SELECT count(*) FROM sync_runs WHERE source_id = %(source_id)s);

-- name: recent_runs
-- List a source's runs, the newest first.
SELECT run_id, status, started_at, finished_at, counts, jsonb_array_length(failures) AS n_failures FROM sync_runs
WHERE source_id = %(source_id)s ORDER BY started_at DESC, run_id DESC LIMIT 10;

-- name: hide_source
-- Hide every document of a source at once; what is needed to delete them stays.
UPDATE documents SET deleted_at = now(), profile_id = NULL, acl_version = acl_version + 1, acl_changed_at = now()
WHERE source_id = %(source_id)s AND deleted_at IS NULL;

-- name: documents_with_tuples
-- List some documents of a source that permission tuples still speak of.
SELECT DISTINCT d.document_id FROM documents d
JOIN tuples t ON t.tenant_id = d.tenant_id AND t.resource_type = 'document' AND t.resource_name = d.document_id
WHERE d.source_id = %(source_id)s LIMIT %(limit)s;

-- name: own_objects
-- List the contents that no other source's documents have.
SELECT DISTINCT v.content_sha256 FROM versions v JOIN documents d ON d.document_id = v.document_id
WHERE d.source_id = %(source_id)s AND NOT EXISTS (
    SELECT FROM versions o JOIN documents e ON e.document_id = o.document_id
    WHERE o.content_sha256 = v.content_sha256 AND e.source_id <> %(source_id)s)
ORDER BY 1;

-- name: forget_answers
-- Take the words of a source's documents out of the answers that cited them.
WITH cited AS (
    SELECT ci.answer_id, ci.number FROM citations ci
    JOIN documents d ON d.document_id = ci.document_id WHERE d.source_id = %(source_id)s
), quotes AS (
    UPDATE citations ci SET quote = '' FROM cited WHERE ci.answer_id = cited.answer_id AND ci.number = cited.number
)
UPDATE answers a SET text = '' WHERE a.answer_id IN (SELECT answer_id FROM cited);

-- name: drop_some_documents
-- Delete some documents of a source with their versions, chunks and edges.
DELETE FROM documents WHERE document_id IN (
    SELECT document_id FROM documents WHERE source_id = %(source_id)s ORDER BY document_id LIMIT %(limit)s);

-- name: drop_runs
-- Forget a source's runs.
DELETE FROM sync_runs WHERE source_id = %(source_id)s;

-- name: drop_source
-- Forget a source.
DELETE FROM sources WHERE source_id = %(source_id)s;
