-- What the office lends. The CHECK is the only guard of the quantity: the service has no rule of its own for it.
-- AUTOINCREMENT, because an id that a stored answer names must not come back for another reservation.
CREATE TABLE reservations (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    item_code   TEXT    NOT NULL,
    quantity    INTEGER NOT NULL CONSTRAINT reservations_quantity_positive CHECK (quantity > 0),
    reserved_by TEXT    NOT NULL,
    created_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
