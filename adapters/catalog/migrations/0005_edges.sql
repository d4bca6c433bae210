-- The links that authors wrote between documents. They belong to a version: staged, shown and dropped with it.

-- A link as written. Within its source, the target is looked up by (space, key).
CREATE TABLE edges (
    version_id  bigint NOT NULL REFERENCES versions ON DELETE CASCADE,
    ordinal     integer NOT NULL,
    source_id   identifier NOT NULL,
    kind        text NOT NULL,
    space       text NOT NULL,
    key         text COLLATE "C" NOT NULL,
    target      text NOT NULL,
    anchor      text NOT NULL,
    byte_start  bigint NOT NULL,
    byte_end    bigint NOT NULL CHECK (byte_end >= byte_start),
    PRIMARY KEY (version_id, ordinal)
);

-- The keys under which a version can be linked to.
CREATE TABLE names (
    version_id  bigint NOT NULL REFERENCES versions ON DELETE CASCADE,
    ordinal     integer NOT NULL,
    source_id   identifier NOT NULL,
    space       text NOT NULL,
    key         text COLLATE "C" NOT NULL,
    rank        integer NOT NULL,
    byte_start  bigint NOT NULL,
    PRIMARY KEY (version_id, ordinal)
);

-- Keys may be longer than an index entry can be, so their hashes are indexed.
CREATE INDEX edges_by_key ON edges (source_id, space, md5(key));
CREATE INDEX names_by_key ON names (source_id, space, md5(key));

CREATE FUNCTION folder_of(path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(path, '[^/]*$', '');

-- Where each link of a shown document leads at this moment. Of the shown documents that have its key, those win that
-- have it by the best rank; then those in the link's own folder; then those in the fewest folders. Several that are
-- still alike make it ambiguous. Computed, not stored: a target that comes, moves or goes cannot leave a stale row.
CREATE VIEW resolved_edges AS
SELECT d.tenant_id, e.source_id, d.document_id, d.external_id, e.ordinal, e.kind, e.space, e.key, e.target, e.anchor,
       e.byte_start, e.byte_end,
       CASE WHEN found.n_targets = 1 THEN found.document_id END AS target_document_id,
       CASE WHEN found.n_targets = 1 THEN 'resolved'
            WHEN found.n_targets > 1 THEN 'ambiguous'
            WHEN e.space IN ('tag', 'reference', 'attachment') THEN 'external'
            ELSE 'dangling' END AS state
FROM edges e
JOIN documents d ON d.version_id = e.version_id
CROSS JOIN LATERAL (
    SELECT count(DISTINCT fitting.document_id) AS n_targets, min(fitting.document_id) AS document_id
    FROM (
        SELECT t.document_id,
               rank() OVER (ORDER BY n.rank, folder_of(t.external_id) <> folder_of(d.external_id),
                                     length(regexp_replace(t.external_id, '[^/]', '', 'g'))) AS place
        FROM names n
        JOIN documents t ON t.version_id = n.version_id
        WHERE n.source_id = e.source_id AND n.space = e.space AND md5(n.key) = md5(e.key) AND n.key = e.key
    ) AS fitting
    WHERE fitting.place = 1
) AS found;
