-- The queue of side effects: what SpiceDB and the index must still hear, in commit order.

CREATE TABLE outbox (
    outbox_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     identifier NOT NULL REFERENCES tenants,
    topic         text NOT NULL,
    key           text NOT NULL,
    payload       jsonb NOT NULL,
    -- Checks wait for it: it takes something away, or might.
    gates_checks  boolean NOT NULL DEFAULT false,
    attempts      integer NOT NULL DEFAULT 0,
    parked_at     timestamptz,
    reason        text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz
);
CREATE INDEX outbox_waiting ON outbox (outbox_id) WHERE published_at IS NULL;
CREATE INDEX outbox_gates ON outbox (outbox_id) WHERE published_at IS NULL AND gates_checks;

CREATE FUNCTION announce_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('cortex_outbox', '');
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_announced AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION announce_outbox();

-- One row: the newest token that SpiceDB acknowledged, and up to which event.
CREATE TABLE permission_state (
    is_only            boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    token              text NOT NULL DEFAULT '',
    applied_outbox_id  bigint NOT NULL DEFAULT 0,
    acknowledged_at    timestamptz
);
INSERT INTO permission_state DEFAULT VALUES;
