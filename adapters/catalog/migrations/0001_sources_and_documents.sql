-- Tenants, sources, documents, their versions and chunks.

-- Ids are compared byte by byte, whatever locale the database was created with.
CREATE DOMAIN identifier AS text COLLATE "C" CHECK (value <> '');

-- A tenant id is part of SpiceDB's object ids, so the separators '/' and '|' cannot be part of it.
CREATE TABLE tenants (
    tenant_id   identifier PRIMARY KEY CHECK (tenant_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sources (
    source_id    identifier PRIMARY KEY,
    tenant_id    identifier NOT NULL REFERENCES tenants,
    source_type  text NOT NULL,
    name         text NOT NULL,
    collection   text NOT NULL,
    options      jsonb NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, source_type, name)
);

CREATE TABLE sync_runs (
    run_id       identifier PRIMARY KEY DEFAULT uuidv7()::text,
    source_id    identifier NOT NULL REFERENCES sources,
    status       text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'succeeded', 'failed')),
    counts       jsonb NOT NULL DEFAULT '{}',
    failures     jsonb NOT NULL DEFAULT '[]',
    started_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz
);
CREATE INDEX sync_runs_by_source ON sync_runs (source_id, started_at DESC);

-- A document is an identity: where it lives, which version of its content is shown, and whether it is gone.
CREATE TABLE documents (
    document_id        identifier PRIMARY KEY,
    tenant_id          identifier NOT NULL REFERENCES tenants,
    source_id          identifier NOT NULL REFERENCES sources,
    external_id        text COLLATE "C" NOT NULL,
    version_id         bigint,
    staged_version_id  bigint,
    deleted_at         timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source_id, external_id)
);

-- One parsed and chunked content of a document. At most two exist: the one shown and the one being staged.
CREATE TABLE versions (
    version_id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document_id              identifier NOT NULL REFERENCES documents ON DELETE CASCADE,
    tenant_id                identifier NOT NULL,
    content_sha256           text COLLATE "C" NOT NULL,
    fingerprint              text NOT NULL,
    embedding_model_version  text NOT NULL,
    source_type              text NOT NULL,
    collection               text NOT NULL,
    title                    text NOT NULL,
    media_type               text NOT NULL,
    permalink                text NOT NULL,
    author                   text NOT NULL,
    language                 text NOT NULL,
    created_at               timestamptz,
    updated_at               timestamptz,
    meta                     jsonb NOT NULL DEFAULT '{}',
    group_id                 identifier NOT NULL,
    signature                bytea NOT NULL DEFAULT '',
    bands                    bigint[] NOT NULL DEFAULT '{}',
    staged_at                timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX versions_by_document ON versions (document_id);
CREATE INDEX versions_by_band ON versions USING gin (bands);

ALTER TABLE documents
    ADD FOREIGN KEY (version_id) REFERENCES versions DEFERRABLE INITIALLY DEFERRED,
    ADD FOREIGN KEY (staged_version_id) REFERENCES versions DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX documents_by_version ON documents (version_id);
CREATE INDEX documents_by_staged_version ON documents (staged_version_id) WHERE staged_version_id IS NOT NULL;

-- The same chunk id may stand in the shown and in the staged version: then its point in the index is the same too.
CREATE TABLE chunks (
    chunk_id      identifier NOT NULL,
    version_id    bigint NOT NULL REFERENCES versions ON DELETE CASCADE,
    document_id   identifier NOT NULL,
    ordinal       integer NOT NULL,
    text          text NOT NULL,
    byte_start    bigint NOT NULL,
    byte_end      bigint NOT NULL CHECK (byte_end >= byte_start),
    anchor_kind   text NOT NULL,
    anchor_start  integer NOT NULL,
    anchor_end    integer NOT NULL,
    anchor_label  text NOT NULL,
    heading_path  text[] NOT NULL,
    kind          text NOT NULL,
    n_tokens      integer NOT NULL,
    n_bytes       bigint GENERATED ALWAYS AS (byte_end - byte_start) VIRTUAL,
    PRIMARY KEY (chunk_id, version_id),
    UNIQUE (version_id, ordinal)
);
