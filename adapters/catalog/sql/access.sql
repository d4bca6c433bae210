-- name: user
-- Say whether a person is registered, and since when removed.
SELECT removed_at FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s;

-- name: groups_of_user
-- List a person's groups, through nested groups and circles, and whether the person is a member directly.
WITH RECURSIVE closure (subject_type, subject_name) AS (
    SELECT 'user'::text COLLATE "C", %(user_id)s::text COLLATE "C"
    UNION
    SELECT 'group'::text COLLATE "C", t.resource_name
    FROM closure c
    JOIN tuples t ON t.tenant_id = %(tenant_id)s AND t.resource_type = 'group' AND t.relation = 'member'
        AND t.subject_type = c.subject_type AND t.subject_name = c.subject_name
)
SELECT c.subject_name,
       EXISTS (SELECT FROM tuples t
               WHERE t.tenant_id = %(tenant_id)s AND t.resource_type = 'group' AND t.resource_name = c.subject_name
                 AND t.subject_type = 'user' AND t.subject_name = %(user_id)s)
FROM closure c
WHERE c.subject_type = 'group' AND c.subject_name <> ''
ORDER BY c.subject_name;

-- name: documents_of_profiles
-- Count the documents that some profiles let see.
SELECT count(*) FROM documents
WHERE tenant_id = %(tenant_id)s AND profile_id = ANY(%(profile_ids)s::integer[])
  AND deleted_at IS NULL AND version_id IS NOT NULL;

-- name: users
-- List a tenant's people, and whether they were removed.
SELECT user_id, removed_at IS NOT NULL FROM users WHERE tenant_id = %(tenant_id)s ORDER BY user_id;

-- name: edges
-- List a tenant's group edges with who asserts them: the names of sources, or the operator.
SELECT t.resource_name, t.subject_type, t.subject_name,
       array_agg(coalesce(s.source_type || ':' || s.name, 'operator') ORDER BY s.name)
FROM tuples t
LEFT JOIN sources s ON s.source_id = t.source_id
WHERE t.tenant_id = %(tenant_id)s AND t.resource_type = 'group' AND t.resource_name <> ''
GROUP BY t.resource_name, t.subject_type, t.subject_name
ORDER BY t.resource_name, t.subject_type, t.subject_name;

-- name: dark_documents
-- Count shown documents that nobody may see because their source could not say who may.
SELECT count(*) FROM documents d
LEFT JOIN profiles p ON p.profile_id = d.profile_id
WHERE d.tenant_id = %(tenant_id)s AND d.deleted_at IS NULL AND d.version_id IS NOT NULL
  AND coalesce(p.is_known, false) = false;
