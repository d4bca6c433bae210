-- name: model_versions
-- List the model versions that chunks were embedded by, with how many shown documents each has.
SELECT v.embedding_model_version, count(*) FILTER (WHERE d.version_id = v.version_id)
FROM versions v JOIN documents d ON d.document_id = v.document_id
GROUP BY 1 ORDER BY 1;

-- name: expected_points
-- Stream what the points of model versions must say, shown or being staged, by ascending chunk id.
SELECT c.chunk_id, d.version_id IS NOT DISTINCT FROM c.version_id AND d.deleted_at IS NULL, d.tenant_id, coalesce(d.profile_id, 0), d.source_id, v.source_type,
       v.collection, d.document_id, v.group_id, trunc(extract(epoch FROM v.updated_at))::bigint, v.embedding_model_version
FROM chunks c
JOIN versions v ON v.version_id = c.version_id
JOIN documents d ON d.document_id = c.document_id
WHERE v.embedding_model_version = ANY(%(versions)s)
ORDER BY c.chunk_id;

-- name: expected_points_now
-- Say the same of some chunks alone.
SELECT c.chunk_id, d.version_id IS NOT DISTINCT FROM c.version_id AND d.deleted_at IS NULL, d.tenant_id, coalesce(d.profile_id, 0), d.source_id, v.source_type,
       v.collection, d.document_id, v.group_id, trunc(extract(epoch FROM v.updated_at))::bigint, v.embedding_model_version
FROM chunks c
JOIN versions v ON v.version_id = c.version_id
JOIN documents d ON d.document_id = c.document_id
WHERE c.chunk_id = ANY(%(chunk_ids)s)
ORDER BY c.chunk_id;

-- name: waiting_chunks
-- Of some chunks, list those whose deletion waits to be delivered.
SELECT DISTINCT waiting.chunk_id
FROM outbox o, jsonb_array_elements_text(o.payload -> 'chunk_ids') AS waiting (chunk_id)
WHERE o.published_at IS NULL AND o.parked_at IS NULL AND o.topic = 'chunks.obsolete'
  AND waiting.chunk_id = ANY(%(chunk_ids)s);

-- name: waiting_profiles
-- Of some documents, list those whose change of access waits to be delivered.
SELECT DISTINCT key FROM outbox
WHERE published_at IS NULL AND parked_at IS NULL AND topic = 'document.profile' AND key = ANY(%(document_ids)s);

-- name: profile_lists
-- List every access profile with the hash of its list.
SELECT profile_id, acl_sha256 FROM profiles;

-- name: shown_texts
-- Stream the shown chunks with the hash of what they say and of who may see it.
SELECT c.chunk_id, encode(sha256(convert_to(v.title || E'\n' || c.text, 'UTF8')), 'hex'), coalesce(p.acl_sha256, '')
FROM documents d
JOIN versions v ON v.version_id = d.version_id
JOIN chunks c ON c.version_id = v.version_id
LEFT JOIN profiles p ON p.profile_id = d.profile_id
WHERE d.deleted_at IS NULL;

-- name: profile_grants
-- Stream the access profiles with the grants that the mirror holds of them.
SELECT p.profile_id, p.tenant_id, p.acl_sha256, p.is_known,
       coalesce(array_agg(t.relation) FILTER (WHERE t.relation IS NOT NULL), '{}'),
       coalesce(array_agg(t.subject_type) FILTER (WHERE t.relation IS NOT NULL), '{}'),
       coalesce(array_agg(t.subject_name) FILTER (WHERE t.relation IS NOT NULL), '{}')
FROM profiles p
LEFT JOIN tuples t ON t.tenant_id = p.tenant_id AND t.resource_type = 'profile' AND t.resource_name = p.profile_id::text
GROUP BY p.profile_id ORDER BY p.profile_id;

-- name: documents_without_tuple
-- List documents whose access profile the mirror of tuples does not state.
SELECT d.tenant_id, d.document_id FROM documents d
WHERE d.profile_id IS NOT NULL AND d.deleted_at IS NULL AND NOT EXISTS (
    SELECT FROM tuples t WHERE t.tenant_id = d.tenant_id AND t.resource_type = 'document' AND t.resource_name = d.document_id)
ORDER BY d.document_id;

-- name: foreign_tuples
-- List documents of which the mirror states another access profile than theirs, or that are gone.
SELECT DISTINCT t.tenant_id, t.resource_name FROM tuples t
LEFT JOIN documents d ON d.document_id = t.resource_name AND d.tenant_id = t.tenant_id
WHERE t.resource_type = 'document'
  AND (d.document_id IS NULL OR d.deleted_at IS NOT NULL OR t.subject_name IS DISTINCT FROM d.profile_id::text);

-- name: unknown_profiles
-- List tuples' access profiles that the catalog does not know.
SELECT DISTINCT t.tenant_id, t.resource_name FROM tuples t
WHERE t.resource_type = 'profile'
  AND NOT EXISTS (SELECT FROM profiles p WHERE p.tenant_id = t.tenant_id AND p.profile_id::text = t.resource_name);

-- name: referenced_objects
-- Stream the hashes of the contents that versions were made of.
SELECT DISTINCT content_sha256 FROM versions ORDER BY 1;

-- name: documents_of_object
-- List the documents that some contents belong to.
SELECT content_sha256, document_id FROM versions WHERE content_sha256 = ANY(%(sha256s)s) ORDER BY 1, 2;

-- name: parked
-- Count the events that were given up, by topic.
SELECT topic, count(*) FROM outbox WHERE published_at IS NULL AND parked_at IS NOT NULL GROUP BY 1 ORDER BY 1;

-- name: forget_fingerprints
-- Let the next load of their sources make these documents again.
UPDATE versions v SET fingerprint = '' FROM documents d
WHERE d.version_id = v.version_id AND d.document_id = ANY(%(document_ids)s);

-- name: shown_document
-- Read a shown document as its points need it, and hold its row until the transaction ends.
SELECT d.tenant_id, coalesce(d.profile_id, 0), d.source_id, d.external_id, v.source_type, v.title, v.media_type,
       v.content_sha256, v.permalink, v.collection, v.group_id, v.updated_at, v.embedding_model_version, v.version_id
FROM documents d JOIN versions v ON v.version_id = d.version_id
WHERE d.document_id = %(document_id)s AND d.deleted_at IS NULL
FOR UPDATE OF d;

-- name: shown_chunks
-- Read a version's chunks as they were cut.
SELECT chunk_id, text FROM chunks WHERE version_id = %(version_id)s;

-- name: foreign_edges
-- List documents whose links, or names for links, are kept under another source than theirs.
SELECT DISTINCT d.tenant_id, d.document_id
FROM (SELECT version_id, source_id FROM edges UNION ALL SELECT version_id, source_id FROM names) e
JOIN versions v ON v.version_id = e.version_id
JOIN documents d ON d.document_id = v.document_id
WHERE e.source_id <> d.source_id;

-- name: lost_edges
-- List shown documents of which fewer links, or names for links, are there than were stored.
SELECT d.tenant_id, d.document_id
FROM documents d
JOIN versions v ON v.version_id = d.version_id
LEFT JOIN (SELECT version_id, count(*) AS n FROM edges GROUP BY version_id) e ON e.version_id = v.version_id
LEFT JOIN (SELECT version_id, count(*) AS n FROM names GROUP BY version_id) n ON n.version_id = v.version_id
WHERE coalesce(e.n, 0) < v.n_edges OR coalesce(n.n, 0) < v.n_names
ORDER BY d.document_id;

-- name: unused_versions
-- List documents that have a version which is neither shown nor being staged.
SELECT DISTINCT d.tenant_id, d.document_id FROM versions v
JOIN documents d ON d.document_id = v.document_id
WHERE v.version_id IS DISTINCT FROM d.version_id AND v.version_id IS DISTINCT FROM d.staged_version_id;
