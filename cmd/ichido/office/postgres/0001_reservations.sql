-- What the office lends. The CHECK is the only guard of the quantity: the service has no rule of its own for it.
CREATE TABLE reservations (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_code   text        NOT NULL,
    quantity    integer     NOT NULL CONSTRAINT reservations_quantity_positive CHECK (quantity > 0),
    reserved_by text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
