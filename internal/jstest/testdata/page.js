// A page as users of ichido write it. What the tests read is in window.
import { createOperation, pending, memoryStore, indexedDBStore, OperationError } from '/ichido.js';
import { webStore } from '/webstore.js';

const query = new URLSearchParams(location.search);
window.ichido = { createOperation, pending, memoryStore, indexedDBStore };
window.results = []; // of each operation of this page: how it ended
window.states = []; // what observe was told
window.storage = []; // what onstorage was told

const settings = {
  name: 'order',
  attempts: Number(query.get('attempts') ?? 20),
  baseDelay: 50,
  maxDelay: 5000,
  totalTimeout: 60_000,
  store: query.get('store') === 'session' ? webStore(sessionStorage) : undefined,
  observe: ({ state }) => states.push(state),
  onstorage: (error) => storage.push(String(error)),
};

async function show(op, sent) {
  const result = {};
  try {
    const response = await sent;
    if (!response) return;
    result.status = response.status;
    result.body = await response.text();
  } catch (error) {
    result.error = error instanceof OperationError ? error.name : String(error);
  }
  results.push({ ...result, key: op.key, outcome: op.outcome });
}

if (query.has('uncached')) addEventListener('unload', () => {}); // such a page is loaded anew by the back button

const form = document.querySelector('form');
form.addEventListener('submit', (event) => {
  event.preventDefault();
  const op = createOperation(settings);
  show(op, op.fetch('/orders', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ item: form.item.value }),
  }));
});

for (const { name } of await pending(settings)) {
  const op = createOperation({ ...settings, name });
  show(op, op.resume());
}
window.ready = true;
