-- One row per completed key. While its attempt runs a key has no row: it is the open transaction.
-- The key comes first in the primary key, because it tells rows apart in its first bytes; "C" compares bytes.
CREATE TABLE idempotency_keys (
    scope            text COLLATE "C" NOT NULL,
    idem_key         text COLLATE "C" NOT NULL,
    request_hash     bytea            NOT NULL,
    response_status  integer          NOT NULL,
    response_headers bytea            NOT NULL,
    response_body    bytea            NOT NULL,
    created_at       timestamptz      NOT NULL,
    expires_at       timestamptz      NOT NULL,
    PRIMARY KEY (idem_key, scope)
);
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys USING brin (expires_at) WITH (autosummarize = on);
