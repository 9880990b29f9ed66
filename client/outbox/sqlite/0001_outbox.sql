-- Operations that are to be sent, or were: one row each. Times and intervals are milliseconds, times since 1970.
CREATE TABLE idempotency_outbox (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order in which they were put; none is used again
    operation      TEXT,             -- the name that the caller gave it, or NULL
    subject        TEXT,             -- what its order is kept within, or NULL
    idem_key       TEXT    NOT NULL,
    request_hash   BLOB    NOT NULL, -- to recognise another request under the same name
    target         TEXT    NOT NULL, -- how the key is sent
    method         TEXT    NOT NULL,
    url            TEXT    NOT NULL,
    headers        TEXT    NOT NULL, -- JSON: {"Name":["value"]}; no credentials
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL, -- not sent any more from then on if it never was
    memory         INTEGER NOT NULL, -- not sent any more so long after first_sent_at: the server may forget its key
    state          TEXT    NOT NULL CHECK (state IN ('waiting', 'sending', 'done', 'not_done', 'unknown', 'dropped')),
    sent           INTEGER NOT NULL, -- whether it may have taken effect
    first_sent_at  INTEGER,          -- NULL if it certainly took no effect so far
    attempts       INTEGER NOT NULL, -- how often a worker began to send it
    due_at         INTEGER,          -- when a worker must look at it; while it is being sent, the end of the lease
    lease_token    INTEGER NOT NULL, -- of the worker that has it, or had it last
    last_error     TEXT,
    answer_status  INTEGER,          -- of the last attempt
    answer_headers TEXT,
    answer_cut     INTEGER NOT NULL, -- whether answer_body is not all of it
    resource       TEXT,
    decided_at     INTEGER,
    purge_at       INTEGER,
    settled_by     TEXT,
    reason         TEXT,
    answer_body    BLOB,
    body           BLOB
);
-- A name is free again when its operation is dropped.
CREATE UNIQUE INDEX idempotency_outbox_operation ON idempotency_outbox (operation) WHERE operation IS NOT NULL AND state <> 'dropped';
CREATE INDEX idempotency_outbox_due ON idempotency_outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idempotency_outbox_subject ON idempotency_outbox (subject, id) WHERE state IN ('waiting', 'sending', 'unknown');
CREATE INDEX idempotency_outbox_purge ON idempotency_outbox (purge_at) WHERE purge_at IS NOT NULL;
