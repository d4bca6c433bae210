-- name: census
-- Count what the catalog holds of all tenants, and its bytes on disk.
SELECT (SELECT count(*) FROM documents WHERE deleted_at IS NULL AND version_id IS NOT NULL),
       (SELECT count(*) FROM chunks),
       (SELECT count(*) FROM tuples),
       pg_database_size(current_database());
