-- What is read for each page: how much of an item is reserved, which is added up from the index alone, and the newest
-- reservations of a name.
CREATE INDEX reservations_by_item ON reservations (item_code, quantity);
CREATE INDEX reservations_by_name ON reservations (reserved_by, id);
