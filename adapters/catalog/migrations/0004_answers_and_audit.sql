-- What was asked and answered, what it cited, what the asker thought of it, and who did what.

CREATE TABLE answers (
    answer_id     identifier PRIMARY KEY DEFAULT uuidv7()::text,
    tenant_id     identifier NOT NULL REFERENCES tenants,
    user_id       identifier NOT NULL,
    question      text NOT NULL,
    text          text NOT NULL,
    mode          text NOT NULL,
    model         text NOT NULL,
    is_abstained  boolean NOT NULL,
    trace_id      text NOT NULL,
    answered_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX answers_by_asker ON answers (tenant_id, user_id, answered_at DESC);

CREATE TABLE citations (
    answer_id    identifier NOT NULL REFERENCES answers ON DELETE CASCADE,
    number       integer NOT NULL,
    fragment_id  identifier NOT NULL,
    document_id  identifier NOT NULL,
    tenant_id    identifier NOT NULL,
    user_id      identifier NOT NULL,
    quote        text NOT NULL,
    PRIMARY KEY (answer_id, number)
);
CREATE INDEX citations_by_document ON citations (document_id);

CREATE TABLE feedback (
    answer_id   identifier PRIMARY KEY REFERENCES answers ON DELETE CASCADE,
    user_id     identifier NOT NULL,
    is_helpful  boolean NOT NULL,
    comment     text NOT NULL,
    given_at    timestamptz NOT NULL DEFAULT now()
);

-- An attempt by someone unknown is recorded too, so neither tenant nor user must exist.
CREATE TABLE audit (
    audit_id   identifier PRIMARY KEY DEFAULT uuidv7()::text,
    tenant_id  text COLLATE "C" NOT NULL,
    user_id    text NOT NULL,
    action     text NOT NULL,
    fields     jsonb NOT NULL DEFAULT '{}',
    acted_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_by_time ON audit (tenant_id, acted_at DESC);
