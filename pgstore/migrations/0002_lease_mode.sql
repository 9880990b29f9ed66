-- Lease mode: a key has a row from its claim on, without an answer as long as response_status is NULL. Then it is in
-- progress while lease_until is in the future, and unknown afterwards. On completion lease_until becomes NULL. The rows of
-- transaction mode have NULL in all of the new columns.
ALTER TABLE idempotency_keys
    ALTER COLUMN response_status DROP NOT NULL,
    ALTER COLUMN response_headers DROP NOT NULL,
    ALTER COLUMN response_body DROP NOT NULL,
    ADD COLUMN lease_token bigint,
    ADD COLUMN lease_until timestamptz,
    ADD COLUMN attempts    integer,
    ADD COLUMN rerun       boolean,
    ADD COLUMN route       text,
    ADD COLUMN asked       integer,
    ADD COLUMN asked_until timestamptz;

-- For those who look for unknown keys among millions of completed ones. It is on columns that do not change, so that the
-- renewal of a lease, an update of lease_until alone, touches no index (HOT).
CREATE INDEX idempotency_keys_incomplete ON idempotency_keys (idem_key, scope) WHERE response_status IS NULL;

-- How unknown keys were settled, by whom and why; how is done, not_done or deleted.
CREATE TABLE idempotency_settlements (
    scope      text COLLATE "C" NOT NULL,
    idem_key   text COLLATE "C" NOT NULL,
    how        text             NOT NULL,
    settled_by text             NOT NULL,
    reason     text             NOT NULL,
    settled_at timestamptz      NOT NULL,
    expires_at timestamptz      NOT NULL
);
CREATE INDEX idempotency_settlements_key ON idempotency_settlements (idem_key, scope);
CREATE INDEX idempotency_settlements_expires_at ON idempotency_settlements USING brin (expires_at) WITH (autosummarize = on);
