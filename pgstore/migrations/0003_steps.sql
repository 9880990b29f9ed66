-- Steps of operations that resume: how many are kept, NULL for an operation without steps. It has no index, so that keeping
-- a step touches none but that of the steps themselves.
ALTER TABLE idempotency_keys ADD COLUMN steps integer;

-- The kept steps. Those with a number beyond idempotency_keys.steps are left from an earlier life of the key, and count for
-- nothing.
CREATE TABLE idempotency_steps (
    scope    text COLLATE "C" NOT NULL,
    idem_key text COLLATE "C" NOT NULL,
    number   integer          NOT NULL,
    name     text             NOT NULL,
    result   bytea            NOT NULL,
    kept_at  timestamptz      NOT NULL,
    PRIMARY KEY (idem_key, scope, number)
);
