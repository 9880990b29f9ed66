-- In lease mode a record is there before its answer is: response_status, response_headers and response_body are NULL.
-- Such a record is in progress until lease_until. After that it is unknown, or, if rerun, the next request runs the work.
-- When the attempt stores its answer lease_until becomes NULL; in a record that was settled as done it stays.
-- Records of transaction mode have NULL in all columns from lease_token on.
-- SQLite cannot drop NOT NULL, so the table is made anew.
CREATE TABLE idempotency_keys_new (
    scope            TEXT    NOT NULL,
    idem_key         TEXT    NOT NULL,
    request_hash     BLOB    NOT NULL,
    response_status  INTEGER,
    response_headers BLOB,
    response_body    BLOB,
    created_at       TEXT    NOT NULL,
    expires_at       TEXT    NOT NULL,
    lease_token      INTEGER,
    lease_until      TEXT,
    attempts         INTEGER,
    rerun            INTEGER,
    route            TEXT,
    asked            INTEGER,
    asked_until      TEXT,
    PRIMARY KEY (idem_key, scope)
) WITHOUT ROWID;
INSERT INTO idempotency_keys_new
    (scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at)
    SELECT scope, idem_key, request_hash, response_status, response_headers, response_body, created_at, expires_at
    FROM idempotency_keys;
DROP TABLE idempotency_keys;
PRAGMA legacy_alter_table = ON; -- otherwise it refuses where a view of yours names the table
ALTER TABLE idempotency_keys_new RENAME TO idempotency_keys;
PRAGMA legacy_alter_table = OFF;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (julianday(expires_at));
-- The records without an answer are few among all. Renewing a lease does not touch this index.
CREATE INDEX idempotency_keys_incomplete ON idempotency_keys (idem_key, scope) WHERE response_status IS NULL;

-- How unknown keys were settled, by whom and why. It outlives the record.
CREATE TABLE idempotency_settlements (
    id         INTEGER PRIMARY KEY,
    scope      TEXT NOT NULL,
    idem_key   TEXT NOT NULL,
    how        TEXT NOT NULL CHECK (how IN ('done', 'not_done', 'deleted')),
    settled_by TEXT NOT NULL,
    reason     TEXT NOT NULL,
    settled_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE INDEX idempotency_settlements_key ON idempotency_settlements (idem_key, scope);
CREATE INDEX idempotency_settlements_expires_at ON idempotency_settlements (julianday(expires_at));
