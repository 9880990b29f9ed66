-- What the office sells. The CHECK is what makes overselling impossible, whatever the statements say.
CREATE TABLE items (
    code    text    PRIMARY KEY,
    name_en text    NOT NULL,
    name_ja text    NOT NULL,
    price   bigint  NOT NULL CHECK (price > 0),
    stock   integer NOT NULL CONSTRAINT items_stock_left CHECK (stock >= 0)
);
INSERT INTO items (code, name_en, name_ja, price, stock) VALUES
    ('CH-201', 'Office chair', 'オフィスチェア', 32800, 40),
    ('DK-110', 'Desk, 120 cm', 'デスク 120cm', 45800, 20),
    ('KB-010', 'Keyboard', 'キーボード', 8900, 60),
    ('MN-270', 'Monitor, 27 inches', 'モニター 27インチ', 39800, 30),
    ('PC-014', 'Notebook, 14 inches', 'ノートPC 14インチ', 148000, 25),
    ('PJ-001', 'Projector', 'プロジェクター', 89800, 30),
    ('PP-500', 'Copy paper, 500 sheets', 'コピー用紙 500枚', 680, 1000000),
    ('WB-090', 'Whiteboard', 'ホワイトボード', 15800, 15);

CREATE TABLE orders (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_code  text        NOT NULL REFERENCES items,
    quantity   integer     NOT NULL CONSTRAINT orders_quantity_positive CHECK (quantity > 0),
    ordered_by text        NOT NULL,
    amount     bigint      NOT NULL,
    charge     text,
    status     text        NOT NULL DEFAULT 'reserved' CHECK (status IN ('reserved', 'charged', 'confirmed', 'declined')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What all processes have in common and nobody else knows.
CREATE TABLE office_secrets (
    name   text  PRIMARY KEY,
    secret bytea NOT NULL
);
