// Orders under express-idempotency with its defaults, as its README shows it.
const express = require('express');
const { idempotency, getSharedIdempotencyService } = require('express-idempotency');

const orders = [];
const failed = new Set();
const app = express();
app.use(express.json());
app.use((req, res, next) => {
  if (['Bearer a', 'Bearer b'].includes(req.get('authorization'))) next();
  else res.status(401).json({ error: 'who are you?' });
});

app.post('/orders', idempotency(), async (req, res) => {
  const service = getSharedIdempotencyService();
  if (service.isHit(req)) return;
  const { item, quantity, flaky } = req.body;
  if (!item || !(quantity > 0)) {
    res.status(400).json({ error: 'quantity must be greater than 0' });
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, 30));
  if (flaky && !failed.has(item)) {
    failed.add(item);
    res.status(500).json({ error: 'it failed this time' });
    return;
  }
  const order = { id: orders.length + 1, item, quantity };
  orders.push(order);
  res.status(201).location(`/orders/${order.id}`).json(order);
});

app.get('/orders', (req, res) => res.json({ orders }));

// What the middleware refuses comes here, with the status that it set.
app.use((err, req, res, next) => {
  if (res.headersSent) return next(err);
  res.status(err.status || (res.statusCode >= 400 ? res.statusCode : 500)).json({ error: err.message });
});

const server = app.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
