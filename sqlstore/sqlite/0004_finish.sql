-- For operations that are finished without their clients. request is that of the operation while it is not completed, or
-- NULL if it is not kept; it is the last column, because it is large and seldom read. max_attempts is how many attempts there
-- may be; NULL and 0 set no bound. owner names the process of the last attempt. Of older records nothing of this is known.
ALTER TABLE idempotency_keys ADD COLUMN max_attempts INTEGER;
ALTER TABLE idempotency_keys ADD COLUMN owner TEXT;
ALTER TABLE idempotency_keys ADD COLUMN request BLOB;
