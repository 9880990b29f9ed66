-- One row per completed key. While its attempt runs a key has no row: it is the open transaction.
-- Without a rowid a record is one place in one tree: an insert writes two pages of the log less.
-- Times are UTC text as datetime('now') writes it, with milliseconds, so that people can compare and set them.
CREATE TABLE idempotency_keys (
    scope            TEXT    NOT NULL,
    idem_key         TEXT    NOT NULL,
    request_hash     BLOB    NOT NULL,
    response_status  INTEGER NOT NULL,
    response_headers BLOB    NOT NULL,
    response_body    BLOB    NOT NULL,
    created_at       TEXT    NOT NULL,
    expires_at       TEXT    NOT NULL,
    PRIMARY KEY (idem_key, scope)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (julianday(expires_at));
