-- name: lock_document
-- Create a document's identity if it is new, and hold its row until the transaction ends.
INSERT INTO documents (document_id, tenant_id, source_id, external_id)
VALUES (%(document_id)s, %(tenant_id)s, %(source_id)s, %(external_id)s)
ON CONFLICT (document_id) DO UPDATE SET external_id = excluded.external_id
WHERE documents.tenant_id = excluded.tenant_id AND documents.source_id = excluded.source_id
RETURNING version_id, staged_version_id;

-- name: hold_document
-- Hold a known document's row until the transaction ends.
SELECT d.tenant_id, d.source_id, d.version_id, d.staged_version_id, d.deleted_at IS NOT NULL,
       v.content_sha256, s.content_sha256
FROM documents d
LEFT JOIN versions v ON v.version_id = d.version_id
LEFT JOIN versions s ON s.version_id = d.staged_version_id
WHERE d.document_id = %(document_id)s
FOR UPDATE OF d;

-- name: chunk_ids
-- List the chunk ids of some versions.
SELECT DISTINCT chunk_id FROM chunks WHERE version_id = ANY(%(version_ids)s) ORDER BY chunk_id;

-- name: insert_version
-- Store a version's metadata; duplicates join the group of the document they resemble.
INSERT INTO versions (
    document_id, tenant_id, content_sha256, fingerprint, embedding_model_version, source_type, collection, title,
    media_type, permalink, author, language, created_at, updated_at, meta, group_id, signature, bands, n_edges, n_names)
VALUES (
    %(document_id)s, %(tenant_id)s, %(content_sha256)s, %(fingerprint)s, %(embedding_model_version)s,
    %(source_type)s, %(collection)s, %(title)s, %(media_type)s, %(permalink)s, %(author)s, %(language)s,
    %(created_at)s, %(updated_at)s, %(meta)s, %(group_id)s, %(signature)s, %(bands)s, %(n_edges)s, %(n_names)s)
RETURNING version_id;

-- name: copy_chunks
-- Load a version's chunks.
COPY chunks (
    chunk_id, version_id, document_id, ordinal, text, byte_start, byte_end, anchor_kind, anchor_start, anchor_end,
    anchor_label, heading_path, kind, n_tokens)
FROM STDIN;

-- name: point_to_staged
-- Set or clear which version is being staged.
UPDATE documents SET staged_version_id = %(version_id)s WHERE document_id = %(document_id)s;

-- name: show_staged
-- Show the staged version in place of the old one; a document that came back is no longer deleted.
UPDATE documents SET version_id = staged_version_id, staged_version_id = NULL, deleted_at = NULL
WHERE document_id = %(document_id)s;

-- name: set_fingerprints
-- Remember a new fingerprint of content that was read again and found to be the same.
UPDATE versions v SET fingerprint = given.fingerprint
FROM unnest(%(document_ids)s::text[], %(fingerprints)s::text[]) AS given (document_id, fingerprint)
JOIN documents d ON d.document_id = given.document_id
WHERE v.version_id = d.version_id;

-- name: hide
-- Tombstone a document: nothing of it is shown, and who could see it is forgotten.
UPDATE documents
SET deleted_at = now(), version_id = NULL, staged_version_id = NULL, profile_id = NULL,
    acl_version = acl_version + 1, acl_changed_at = now()
WHERE document_id = %(document_id)s;

-- name: drop_versions
-- Delete versions with their chunks.
DELETE FROM versions WHERE version_id = ANY(%(version_ids)s);

-- name: known_documents
-- List what is held of a source's living documents.
SELECT d.external_id, d.document_id, coalesce(v.content_sha256, ''), coalesce(v.fingerprint, ''),
       coalesce(p.acl_sha256, ''),
       coalesce(v.embedding_model_version = %(embedding_model_version)s, false)
FROM documents d
LEFT JOIN versions v ON v.version_id = d.version_id
LEFT JOIN profiles p ON p.profile_id = d.profile_id
WHERE d.source_id = %(source_id)s AND d.deleted_at IS NULL;

-- name: similar
-- List a tenant's other documents that share a band with a signature.
SELECT v.document_id, v.group_id, v.signature
FROM versions v
WHERE v.bands && %(bands)s::bigint[] AND v.tenant_id = %(tenant_id)s AND v.document_id <> %(document_id)s;

-- name: unused_versions
-- List versions of documents that are neither shown nor being staged, with the documents held.
SELECT v.version_id, d.document_id FROM versions v
JOIN documents d ON d.document_id = v.document_id
WHERE d.document_id = ANY(%(document_ids)s)
  AND v.version_id IS DISTINCT FROM d.version_id AND v.version_id IS DISTINCT FROM d.staged_version_id
FOR UPDATE OF d;

-- name: own_edges
-- Keep documents' links under the documents' own source.
UPDATE edges e SET source_id = d.source_id FROM versions v, documents d
WHERE v.version_id = e.version_id AND d.document_id = v.document_id AND d.document_id = ANY(%(document_ids)s);

-- name: own_names
-- Keep documents' names for links under the documents' own source.
UPDATE names n SET source_id = d.source_id FROM versions v, documents d
WHERE v.version_id = n.version_id AND d.document_id = v.document_id AND d.document_id = ANY(%(document_ids)s);
