-- Steps of operations that resume: how many are kept, NULL for an operation without steps.
ALTER TABLE idempotency_keys ADD COLUMN steps INTEGER;

-- The kept steps. Those with a number beyond idempotency_keys.steps count for nothing.
CREATE TABLE idempotency_steps (
    scope    TEXT    NOT NULL,
    idem_key TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    result   BLOB    NOT NULL,
    kept_at  TEXT    NOT NULL,
    PRIMARY KEY (idem_key, scope, number)
) WITHOUT ROWID;

-- Keeping a step counts it, in the same statement.
CREATE TRIGGER idempotency_steps_kept AFTER INSERT ON idempotency_steps BEGIN
    UPDATE idempotency_keys SET steps = new.number
    WHERE idem_key = new.idem_key AND scope = new.scope AND coalesce(steps, 0) + 1 = new.number;
END;

-- The steps go when a record loses its number of them. A trigger for the deletion of records would make purging those
-- without steps slower. Who deletes a record by hand deletes its steps as well.
CREATE TRIGGER idempotency_keys_stepless AFTER UPDATE OF steps ON idempotency_keys WHEN old.steps IS NOT NULL AND new.steps IS NULL BEGIN
    DELETE FROM idempotency_steps WHERE idem_key = old.idem_key AND scope = old.scope;
END;

-- For purging. Records without steps are not in it.
CREATE INDEX idempotency_keys_stepped ON idempotency_keys (coalesce(julianday(expires_at), 0)) WHERE steps IS NOT NULL;
