-- Runs can be watched and stopped by others, and a backfill is recorded by what it loads.

ALTER TABLE sync_runs
    ADD COLUMN updated_at timestamptz,
    ADD COLUMN stop_requested_at timestamptz,
    DROP CONSTRAINT sync_runs_status_check,
    ADD CONSTRAINT sync_runs_status_check CHECK (status IN ('running', 'succeeded', 'failed', 'stopped'));

-- One load that was handed to a cluster. Its id comes from what it would load, so that a repeat meets the first.
CREATE TABLE backfills (
    submission_id  identifier PRIMARY KEY,
    tenant_id      identifier NOT NULL REFERENCES tenants,
    source_id      identifier NOT NULL REFERENCES sources ON DELETE CASCADE,
    ray_address    text NOT NULL,
    status         text NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'stopped')),
    log            text NOT NULL DEFAULT '',
    submitted_at   timestamptz NOT NULL DEFAULT now(),
    heard_at       timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz
);
CREATE INDEX backfills_by_tenant ON backfills (tenant_id, submitted_at DESC);
