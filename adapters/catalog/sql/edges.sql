-- name: copy_edges
-- Load a version's edges.
COPY edges (version_id, ordinal, source_id, kind, space, key, target, anchor, byte_start, byte_end) FROM STDIN;

-- name: copy_names
-- Load the keys under which a version can be linked to.
COPY names (version_id, ordinal, source_id, space, key, rank, byte_start) FROM STDIN;

-- name: count_edges
-- Count the edges of a source's shown documents by state.
SELECT state, count(*) FROM resolved_edges WHERE source_id = %(source_id)s GROUP BY state;

-- name: list_edges
-- List the edges of a source's shown documents with their targets, of some states or of all.
SELECT e.kind, e.space, e.target, e.byte_start, e.byte_end, e.anchor, e.key, e.external_id, e.state,
       coalesce(t.external_id, '')
FROM resolved_edges e
LEFT JOIN documents t ON t.document_id = e.target_document_id
WHERE e.source_id = %(source_id)s AND (%(states)s::text[] IS NULL OR e.state = ANY(%(states)s::text[]))
ORDER BY e.external_id, e.ordinal
LIMIT %(limit)s;
