// Orders under @node-idempotency/core, as its README shows it. The package leaves HTTP to its caller: here its errors
// get the statuses of the draft that it follows, and failures are told to it, too, since a key has no other end.
const express = require('express');
const { Idempotency, IdempotencyErrorCodes } = require('@node-idempotency/core');
const { MemoryStorageAdapter } = require('@node-idempotency/storage-adapter-memory');

const idempotency = new Idempotency(new MemoryStorageAdapter(), { enforceIdempotency: true });
const statuses = {
  [IdempotencyErrorCodes.IDEMPOTENCY_FINGERPRINT_MISSMATCH]: 422,
  [IdempotencyErrorCodes.REQUEST_IN_PROGRESS]: 409,
};

const orders = [];
const failed = new Set();
async function create({ item, quantity, flaky }) {
  if (!item || !(quantity > 0)) return { status: 400, body: { error: 'quantity must be greater than 0' } };
  await new Promise((resolve) => setTimeout(resolve, 30));
  if (flaky && !failed.has(item)) {
    failed.add(item);
    return { status: 500, body: { error: 'it failed this time' } };
  }
  const order = { id: orders.length + 1, item, quantity };
  orders.push(order);
  return { status: 201, body: order };
}

const app = express();
app.use(express.json());
app.use((req, res, next) => {
  if (['Bearer a', 'Bearer b'].includes(req.get('authorization'))) next();
  else res.status(401).json({ error: 'who are you?' });
});

app.post('/orders', async (req, res) => {
  const request = { method: req.method, headers: req.headers, body: req.body, path: req.path };
  let known;
  try {
    known = await idempotency.onRequest(request);
  } catch (err) {
    res.status(statuses[err.code] || 400).json({ error: err.message });
    return;
  }
  if (known) {
    res.status(known.additional.status).json(known.body);
    return;
  }
  const { status, body } = await create(req.body);
  await idempotency.onResponse(request, { body, additional: { status } });
  res.status(status).json(body);
});

app.get('/orders', (req, res) => res.json({ orders }));

const server = app.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
