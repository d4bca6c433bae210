-- People who left stay known, so that no source can bring them back: only the operator can.

ALTER TABLE users
    ADD COLUMN removed_at timestamptz,
    -- Tokens that were signed before the return stay refused: the name may be another person's now.
    ADD COLUMN readmitted_at timestamptz;
