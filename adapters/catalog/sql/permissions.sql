-- name: lock_tenant
-- Let one writer at a time change a tenant's memberships and profiles; inserts that only refer to the tenant go on.
SELECT tenant_id FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE;

-- name: bump_revision
-- Make every permit of the tenant that was computed before stale.
UPDATE tenants SET access_revision = access_revision + 1 WHERE tenant_id = %(tenant_id)s;

-- name: assert_tuples
-- Add one source's assertions; returns those that no source made before.
WITH wanted AS (
    SELECT * FROM unnest(
        %(resource_types)s::text[], %(resource_names)s::text[], %(relations)s::text[], %(subject_types)s::text[],
        %(subject_names)s::text[]) AS w (resource_type, resource_name, relation, subject_type, subject_name)
), added AS (
    INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name, source_id)
    SELECT %(tenant_id)s, w.*, %(source_id)s FROM wanted w
    ON CONFLICT DO NOTHING
    RETURNING resource_type, resource_name, relation, subject_type, subject_name
)
SELECT a.* FROM added a
WHERE NOT EXISTS (
    SELECT FROM tuples t  -- as it was before this statement
    WHERE t.tenant_id = %(tenant_id)s AND t.resource_type = a.resource_type AND t.resource_name = a.resource_name
      AND t.relation = a.relation AND t.subject_type = a.subject_type AND t.subject_name = a.subject_name);

-- name: retract_tuples
-- Remove assertions, of one source or (NULL) of all; returns those that no source makes any more.
WITH wanted AS (
    SELECT * FROM unnest(
        %(resource_types)s::text[], %(resource_names)s::text[], %(relations)s::text[], %(subject_types)s::text[],
        %(subject_names)s::text[]) AS w (resource_type, resource_name, relation, subject_type, subject_name)
), removed AS (
    DELETE FROM tuples t USING wanted w
    WHERE t.tenant_id = %(tenant_id)s AND t.resource_type = w.resource_type AND t.resource_name = w.resource_name
      AND t.relation = w.relation AND t.subject_type = w.subject_type AND t.subject_name = w.subject_name
      AND (%(source_id)s::text IS NULL OR t.source_id = %(source_id)s)
    RETURNING t.resource_type, t.resource_name, t.relation, t.subject_type, t.subject_name
)
SELECT DISTINCT r.* FROM removed r
WHERE %(source_id)s::text IS NULL OR NOT EXISTS (
    SELECT FROM tuples t
    WHERE t.tenant_id = %(tenant_id)s AND t.resource_type = r.resource_type AND t.resource_name = r.resource_name
      AND t.relation = r.relation AND t.subject_type = r.subject_type AND t.subject_name = r.subject_name
      AND t.source_id <> %(source_id)s);

-- name: memberships_of_source
-- List the group edges that one source asserts.
SELECT resource_type, resource_name, relation, subject_type, subject_name
FROM tuples
WHERE tenant_id = %(tenant_id)s AND source_id = %(source_id)s AND resource_type = 'group';

-- name: memberships_of_groups
-- List the edges into some groups, whoever asserts them.
SELECT DISTINCT resource_type, resource_name, relation, subject_type, subject_name
FROM tuples
WHERE tenant_id = %(tenant_id)s AND resource_type = 'group' AND resource_name = ANY(%(group_names)s);

-- name: nestings
-- List a tenant's edges between groups.
SELECT DISTINCT resource_name, subject_name
FROM tuples
WHERE tenant_id = %(tenant_id)s AND resource_type = 'group' AND subject_type = 'group';

-- name: group_cycles
-- List a tenant's groups that contain one another.
SELECT group_name, representative FROM group_cycles WHERE tenant_id = %(tenant_id)s;

-- name: clear_group_cycles
-- Forget a tenant's cycles before the new ones are stored.
DELETE FROM group_cycles WHERE tenant_id = %(tenant_id)s;

-- name: store_group_cycles
-- Store a tenant's cycles.
INSERT INTO group_cycles (tenant_id, group_name, representative)
SELECT %(tenant_id)s, * FROM unnest(%(group_names)s::text[], %(representatives)s::text[]);

-- name: register_users
-- Register people; returns those who are new.
INSERT INTO users (tenant_id, user_id)
SELECT %(tenant_id)s, * FROM unnest(%(user_ids)s::text[])
ON CONFLICT DO NOTHING
RETURNING user_id;

-- name: readmit_users
-- Let people back in who had been removed; returns them.
UPDATE users SET removed_at = NULL, readmitted_at = clock_timestamp()
WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s) AND removed_at IS NOT NULL
RETURNING user_id;

-- name: remove_user
-- Note that a person left.
UPDATE users SET removed_at = clock_timestamp()
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND removed_at IS NULL;

-- name: is_registered
-- Say whether a person is known, removed or not.
SELECT EXISTS (SELECT FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s);

-- name: removed_users
-- Of some people, list those who were removed.
SELECT user_id FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s) AND removed_at IS NOT NULL
ORDER BY user_id;

-- name: memberships_of_user
-- List the groups that a person is in directly, whoever says so; everyone is one of them.
SELECT DISTINCT resource_type, resource_name, relation, subject_type, subject_name
FROM tuples
WHERE tenant_id = %(tenant_id)s AND resource_type = 'group' AND relation = 'member'
  AND subject_type = 'user' AND subject_name = %(user_id)s;

-- name: lock_documents
-- Create the identities that are new, and hold the rows until the transaction ends.
INSERT INTO documents (document_id, tenant_id, source_id, external_id)
SELECT w.document_id, %(tenant_id)s, %(source_id)s, w.external_id
FROM unnest(%(document_ids)s::text[], %(external_ids)s::text[]) AS w (document_id, external_id)
ORDER BY w.document_id
ON CONFLICT (document_id) DO UPDATE SET external_id = excluded.external_id
WHERE documents.tenant_id = excluded.tenant_id AND documents.source_id = excluded.source_id
RETURNING document_id;

-- name: document_profiles
-- Say which profile documents have, whether it came from a known list, and whether points of them may exist.
SELECT d.document_id, d.profile_id, p.acl_sha256, coalesce(p.is_known, false), d.acl_version > 0,
       d.version_id IS NOT NULL OR d.staged_version_id IS NOT NULL
FROM documents d
LEFT JOIN profiles p ON p.profile_id = d.profile_id
WHERE d.document_id = ANY(%(document_ids)s);

-- name: find_profiles
-- Find interned profiles by the hash of their list.
SELECT acl_sha256, profile_id FROM profiles
WHERE tenant_id = %(tenant_id)s AND acl_sha256 = ANY(%(acl_sha256s)s);

-- name: insert_profile
-- Intern one grant set.
INSERT INTO profiles (tenant_id, acl_sha256, is_known) VALUES (%(tenant_id)s, %(acl_sha256)s, %(is_known)s)
RETURNING profile_id;

-- name: set_profiles
-- Give documents their new profiles.
UPDATE documents d SET profile_id = w.profile_id, acl_version = d.acl_version + 1, acl_changed_at = now()
FROM unnest(%(document_ids)s::text[], %(profile_ids)s::integer[]) AS w (document_id, profile_id)
WHERE d.document_id = w.document_id;

-- name: document_tuples
-- List the access tuples of documents.
SELECT resource_type, resource_name, relation, subject_type, subject_name
FROM tuples
WHERE tenant_id = %(tenant_id)s AND resource_type = 'document' AND resource_name = ANY(%(document_ids)s);

-- name: hold_profile_documents
-- Hold the documents that have an access profile, and say whether points of them may exist.
SELECT document_id, version_id IS NOT NULL OR staged_version_id IS NOT NULL FROM documents
WHERE tenant_id = %(tenant_id)s AND profile_id::text = %(name)s
ORDER BY document_id FOR UPDATE;

-- name: hold_documents
-- Hold documents that are there, with their profiles, and say whether points of them may exist.
SELECT document_id, profile_id, version_id IS NOT NULL OR staged_version_id IS NOT NULL FROM documents
WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s) AND deleted_at IS NULL
ORDER BY document_id FOR UPDATE;

-- name: hold_profiles
-- Hold documents of any tenant, with their profiles.
SELECT tenant_id, document_id, profile_id FROM documents
WHERE document_id = ANY(%(document_ids)s) AND deleted_at IS NULL
ORDER BY document_id FOR UPDATE;

-- name: clear_profiles
-- Take documents' access profiles away: nobody may see them until their source says again who may.
UPDATE documents SET profile_id = NULL, acl_version = acl_version + 1, acl_changed_at = now()
WHERE document_id = ANY(%(document_ids)s);

-- name: tuples_of_profile
-- List the grants of an access profile.
SELECT resource_type, resource_name, relation, subject_type, subject_name FROM tuples
WHERE tenant_id = %(tenant_id)s AND resource_type = 'profile' AND resource_name = %(name)s;

-- name: drop_profile
-- Forget an access profile.
DELETE FROM profiles WHERE tenant_id = %(tenant_id)s AND profile_id::text = %(name)s;

-- name: any_tenant
-- Name one tenant.
SELECT tenant_id FROM tenants ORDER BY tenant_id LIMIT 1;
