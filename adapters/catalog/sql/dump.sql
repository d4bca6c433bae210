-- name: tables
-- List the catalog's tables with their columns that are not computed; the record of migrations is not among them.
SELECT c.table_name, array_agg(c.column_name::text ORDER BY c.ordinal_position)
FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
  AND c.table_name <> 'schema_migrations'
GROUP BY c.table_name ORDER BY c.table_name;

-- name: references
-- List which table refers to which at once, so that it must be filled after it.
SELECT DISTINCT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
WHERE contype = 'f' AND NOT condeferrable AND connamespace = 'public'::regnamespace AND conrelid <> confrelid;

-- name: sequences
-- List the numbers that were given out last; they are not to be given out again.
SELECT s.sequencename, s.last_value FROM pg_sequences s
WHERE s.schemaname = 'public' AND s.last_value IS NOT NULL ORDER BY s.sequencename;

-- name: set_sequence
-- Go on after a number.
SELECT setval(%(name)s::regclass, %(value)s);

-- name: history
-- List the applied migrations.
SELECT name FROM schema_migrations ORDER BY number;

-- name: newest_access_change
-- Say when access changed last.
SELECT greatest((SELECT max(acl_changed_at) FROM documents), (SELECT max(asserted_at) FROM tuples),
                (SELECT max(greatest(removed_at, readmitted_at)) FROM users));

-- name: has_rows
-- Say whether a catalog holds anything.
SELECT EXISTS (SELECT FROM tenants);
