-- A run says what was left out on purpose, and pushes of sources wait until what they name is read again.

ALTER TABLE sync_runs ADD COLUMN skipped jsonb NOT NULL DEFAULT '[]';

-- A push that was verified. The same one again, a sender's retry or a replay, meets its row and changes nothing.
CREATE TABLE pushes (
    source_id    identifier NOT NULL REFERENCES sources ON DELETE CASCADE,
    push_id      text COLLATE "C" NOT NULL,
    changed_ids  text[] NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    settled_at   timestamptz,
    PRIMARY KEY (source_id, push_id)
);
CREATE INDEX pushes_waiting ON pushes (source_id, received_at) WHERE settled_at IS NULL;
