-- name: lock
-- Let one migration run at a time; the number is arbitrary and ours.
SELECT pg_advisory_lock(7203001);

-- name: unlock
-- Let the next one in.
SELECT pg_advisory_unlock(7203001);

-- name: has_history
-- Say whether this database was ever migrated.
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- name: make_history
-- Create the record of applied files.
CREATE TABLE IF NOT EXISTS schema_migrations (
    number      integer PRIMARY KEY,
    name        text NOT NULL,
    sha256      text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);

-- name: history
-- List the applied files in order.
SELECT name, sha256 FROM schema_migrations ORDER BY number;

-- name: record
-- Record one applied file.
INSERT INTO schema_migrations (number, name, sha256) VALUES (%(number)s, %(name)s, %(sha256)s);
