-- For operations that are finished without their clients. request is that of the operation while it is not completed, or
-- NULL if it is not kept. max_attempts is how many attempts there may be; NULL and 0 set no bound. owner names the process of
-- the last attempt. Of older rows nothing of this is known. None of it is in an index, for the renewal of leases (HOT).
ALTER TABLE idempotency_keys
    ADD COLUMN max_attempts integer,
    ADD COLUMN owner        text,
    ADD COLUMN request      bytea;
