-- Who may see what: people, the mirror of every permission tuple, and access profiles.

CREATE TABLE users (
    tenant_id   identifier NOT NULL REFERENCES tenants,
    user_id     identifier NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id)
);

-- The revision grows whenever a membership or a profile changes: what was computed at an older one is stale.
ALTER TABLE tenants ADD COLUMN access_revision bigint NOT NULL DEFAULT 0;

-- Every tuple that SpiceDB holds, once for each source that asserts it ('' is the operator). Names are the source's own;
-- the empty group is everyone in the tenant. A subject that is a group means its members.
CREATE TABLE tuples (
    tenant_id         identifier NOT NULL REFERENCES tenants,
    resource_type     text COLLATE "C" NOT NULL CHECK (resource_type IN ('group', 'profile', 'document')),
    resource_name     text COLLATE "C" NOT NULL,
    relation          text COLLATE "C" NOT NULL CHECK (relation IN ('member', 'viewer', 'denied', 'access')),
    subject_type      text COLLATE "C" NOT NULL CHECK (subject_type IN ('user', 'group', 'profile')),
    subject_name      text COLLATE "C" NOT NULL,
    subject_relation  text GENERATED ALWAYS AS (CASE subject_type WHEN 'group' THEN 'member' ELSE '' END) VIRTUAL,
    source_id         text COLLATE "C" NOT NULL DEFAULT '',
    asserted_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, resource_type, resource_name, relation, subject_type, subject_name, source_id)
);
-- Walks from a subject up to its groups and on to the profiles that name them.
CREATE INDEX tuples_by_subject ON tuples (tenant_id, subject_type, subject_name, resource_type, relation)
    INCLUDE (resource_name) WHERE resource_type <> 'document';
CREATE INDEX tuples_by_source ON tuples (tenant_id, source_id, resource_type) WHERE resource_type = 'group';

-- An access profile is an interned grant set; its dense integer is what the index filters by.
CREATE TABLE profiles (
    profile_id  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   identifier NOT NULL REFERENCES tenants,
    acl_sha256  text COLLATE "C" NOT NULL,
    is_known    boolean NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, acl_sha256)
);

-- A document without a profile is visible to nobody.
ALTER TABLE documents
    ADD COLUMN profile_id integer REFERENCES profiles,
    ADD COLUMN acl_version bigint NOT NULL DEFAULT 0,
    ADD COLUMN acl_changed_at timestamptz;
CREATE INDEX documents_by_profile ON documents (profile_id);

-- Groups that contain one another, directly or not. They have the same members, and SpiceDB cannot walk circles: it is
-- told that the representative has the members of all, and that each of the others has the representative's.
CREATE TABLE group_cycles (
    tenant_id       identifier NOT NULL REFERENCES tenants,
    group_name      text COLLATE "C" NOT NULL,
    representative  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, group_name)
);
