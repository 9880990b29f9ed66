import assert from 'node:assert/strict';
import test from 'node:test';
import { createOperation, memoryStore, MismatchError, NotDoneError, pending, UnknownError } from '../ichido.js';
import { webStore } from '../webstore.js';
import { answer, created, cut, post, problem, quick, serve, silence } from './server.js';

const key = ({ key }) => key;
const hour = 3600_000;

/** A store of another page is a Keeper of its own on what the first one kept. */
const otherPage = (store) => ({ ...store });

test('a double click is one operation, with one answer for both', async (t) => {
  const { url, sendings } = await serve(t, created);
  const store = memoryStore();
  const clicks = [1, 2, 3].map(() => createOperation({ ...quick, name: 'order', store }));
  const answers = await Promise.all(clicks.map((op) => op.fetch(url, post())));
  for (const response of answers) assert.deepEqual(await response.json(), { id: 1 });
  assert.equal(sendings.length, 1);
  assert.deepEqual(clicks.map(key), Array(3).fill(clicks[0].key));
  assert.deepEqual(clicks.map(({ outcome }) => outcome), ['done', 'done', 'done']);
  assert.deepEqual(await pending({ store }), []);
});

test('each click reads its answer as soon as it has it', async (t) => {
  const { url } = await serve(t, created);
  const store = memoryStore();
  const texts = [1, 2, 3].map(() => createOperation({ ...quick, name: 'order', store }).fetch(url, post()).then((response) => response.text()));
  assert.deepEqual(await Promise.all(texts), Array(3).fill('{"id":1}'));
});

test('after a definite answer the next submit is a new operation', async (t) => {
  for (const status of [201, 400]) {
    const { url, sendings } = await serve(t, answer(status));
    const store = memoryStore();
    for (let i = 0; i < 2; i++) await createOperation({ ...quick, name: 'order', store }).fetch(url, post());
    assert.notEqual(sendings[0].key, sendings[1].key);
  }
});

test('it is kept before its first byte is sent, and no longer than its outcome is unknown', async (t) => {
  const store = memoryStore();
  let kept;
  const { url } = await serve(t, async (res) => {
    kept = await store.list();
    created(res);
  });
  const op = createOperation({ ...quick, name: 'order', store });
  await op.fetch(url, post(undefined, { headers: { 'Content-Type': 'application/json', 'Authorization': 'secret', 'X-CSRF-Token': 'secret' } }));
  assert.equal(kept.length, 1);
  const [{ name, key, method, body, headers, started }] = kept;
  assert.deepEqual({ name, key, method, url: kept[0].url }, { name: 'order', key: op.key, method: 'POST', url });
  assert.equal(new TextDecoder().decode(body), '{"item":"chair"}');
  assert.deepEqual(headers, [['content-type', 'application/json']]);
  assert.ok(Math.abs(Date.now() - started) < hour);
  assert.deepEqual(await store.list(), []);
});

test('what was undecided goes on in another page: when submitted again, or by resume', async (t) => {
  const { url, sendings } = await serve(t, cut, cut, cut, created);
  const store = memoryStore();
  const first = createOperation({ ...quick, name: 'order', store, attempts: 1 });
  await assert.rejects(first.fetch(url, post()), UnknownError);

  const second = createOperation({ ...quick, name: 'order', store: otherPage(store), attempts: 1 });
  assert.notEqual(second.key, first.key);
  await assert.rejects(second.fetch(url, post()), UnknownError);
  assert.equal(second.key, first.key);

  const page = otherPage(store);
  const [{ started, ...rest }] = await pending({ store: page });
  assert.deepEqual(rest, { name: 'order', key: first.key, method: 'POST', url, resumable: true });
  const third = createOperation({ ...quick, name: 'order', store: page });
  const response = await third.resume({ headers: { Authorization: 'Bearer new' } });
  assert.equal(response.status, 201);
  assert.equal(third.outcome, 'done');
  assert.equal(third.key, first.key);
  assert.equal(new Set(sendings.map(key)).size, 1);
  assert.equal(sendings.at(-1).body.toString(), '{"item":"chair"}');
  assert.equal(sendings.at(-1).headers.authorization, 'Bearer new');
  assert.equal(sendings.at(-1).headers['content-type'], 'application/json');
  assert.deepEqual(await pending({ store }), []);
  assert.equal(await createOperation({ ...quick, name: 'order', store }).resume(), undefined);
});

test('an answer that decides nothing keeps it', async (t) => {
  // Logged out while the first answer was lost: after the login the same form must not become a new order.
  const { url, sendings } = await serve(t, cut, answer(401), created);
  const store = memoryStore();
  const op = createOperation({ ...quick, name: 'order', store });
  assert.equal((await op.fetch(url, post())).status, 401);
  assert.equal(op.outcome, 'unknown');
  await createOperation({ ...quick, name: 'order', store }).fetch(url, post());
  assert.equal(new Set(sendings.map(key)).size, 1);
});

test('an answer that decides nothing keeps what another page began', async (t) => {
  const { url } = await serve(t, cut, answer(401));
  const store = memoryStore();
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1 }).fetch(url, post()), UnknownError);
  const op = createOperation({ ...quick, name: 'order', store: otherPage(store) });
  assert.equal((await op.fetch(url, post())).status, 401);
  assert.equal(op.outcome, 'unknown');
  assert.equal((await store.list()).length, 1);
});

test('discarded while it is sent, it does not hold up the next one', async (t) => {
  const store = memoryStore();
  const { url, sendings } = await serve(t, async (res) => {
    const next = createOperation({ ...quick, name: 'order', store });
    await next.discard();
    assert.equal((await next.fetch(url, post('other'))).status, 201);
    created(res);
  }, created);
  assert.equal((await createOperation({ ...quick, name: 'order', store }).fetch(url, post())).status, 201);
  assert.notEqual(sendings[0].key, sendings[1].key);
});

test('another request of the name is refused until the first is decided or discarded', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  const first = createOperation({ ...quick, name: 'order', store, attempts: 1 });
  await assert.rejects(first.fetch(url, post()), UnknownError);

  const second = createOperation({ ...quick, name: 'order', store });
  for (const [other, init] of [[url, post('{"item":"desk"}')], [`${url}?x`, post()], [url, post(undefined, { method: 'PUT' })], [url, post(undefined, { headers: { 'Content-Type': 'text/plain' } })]]) {
    await assert.rejects(second.fetch(other, init), (error) => error instanceof MismatchError && error.key === first.key);
  }
  assert.equal(sendings.length, 1);

  await second.discard();
  assert.equal((await second.fetch(url, post('{"item":"desk"}'))).status, 201);
  assert.notEqual(sendings[1].key, sendings[0].key);
});

test('after a mismatch the same object can resume the first one', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1 }).fetch(url, post()), UnknownError);
  const op = createOperation({ ...quick, name: 'order', store });
  await assert.rejects(op.fetch(url, post('{"item":"desk"}')), MismatchError);
  assert.equal((await op.resume()).status, 201);
  assert.equal(sendings[1].key, sendings[0].key);
  assert.equal(sendings[1].body.toString(), '{"item":"chair"}');
});

test('another request is refused while the first is being sent', async (t) => {
  const store = memoryStore();
  let second;
  const { url, sendings } = await serve(t, async (res) => {
    second = await createOperation({ ...quick, name: 'order', store }).fetch(url, post('other')).catch((error) => error);
    created(res);
  });
  await createOperation({ ...quick, name: 'order', store }).fetch(url, post());
  assert.ok(second instanceof MismatchError);
  assert.equal(second.key, sendings[0].key.slice(1, -1));
  assert.equal(sendings.length, 1);
});

test('an operation without a name is one request too', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const op = createOperation({ ...quick, attempts: 1 });
  await assert.rejects(op.fetch(url, post()), UnknownError);
  await assert.rejects(op.fetch(url, post('other')), MismatchError);
  assert.equal((await op.resume()).status, 201);
  assert.equal(sendings[0].key, sendings[1].key);
});

test('a key of the caller is not replaced by what is kept', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1, key: 'k1' }).fetch(url, post()), UnknownError);
  await assert.rejects(createOperation({ ...quick, name: 'order', store: otherPage(store), key: 'k2' }).fetch(url, post()), MismatchError);
  const op = createOperation({ ...quick, name: 'order', store: otherPage(store), key: 'k1' });
  assert.equal((await op.fetch(url, post())).status, 201);
  assert.deepEqual(sendings.map(key), ['"k1"', '"k1"']);
});

test('a second call outlives the abort of the first', async (t) => {
  const controller = new AbortController();
  const { url, sendings } = await serve(t, silence, created);
  const store = memoryStore();
  const first = createOperation({ ...quick, name: 'order', store }).fetch(url, post(undefined, { signal: controller.signal }));
  const second = createOperation({ ...quick, name: 'order', store, observe: ({ state }) => state === 'sending' && states.push(state) });
  const states = [];
  const answered = second.fetch(url, post());
  while (sendings.length === 0) await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  await assert.rejects(first, UnknownError);
  assert.equal((await answered).status, 201);
  assert.deepEqual(states, ['sending']);
  assert.equal(sendings[0].key, sendings[1].key);
});

test('a second call that is aborted leaves the first alone', async (t) => {
  const controller = new AbortController();
  const { url, sendings } = await serve(t, async (res) => {
    controller.abort();
    await assert.rejects(second, UnknownError);
    created(res);
  });
  const store = memoryStore();
  const first = createOperation({ ...quick, name: 'order', store }).fetch(url, post());
  const op = createOperation({ ...quick, name: 'order', store });
  const second = op.fetch(url, post(undefined, { signal: controller.signal }));
  assert.equal((await first).status, 201);
  assert.equal(op.outcome, 'unknown');
  assert.equal(sendings.length, 1);
});

test('a request that is none harms nobody who comes second', async (t) => {
  const { url } = await serve(t, created);
  const store = memoryStore();
  const bad = createOperation({ ...quick, name: 'order', store }).fetch('http://', post());
  const good = createOperation({ ...quick, name: 'order', store }).fetch(url, post());
  await assert.rejects(bad, TypeError);
  assert.equal((await good).status, 201);
});

test('aborted before it was sent, it is not kept', async (t) => {
  const { url } = await serve(t, created);
  const store = memoryStore();
  const controller = new AbortController();
  const slow = { ...store, claim: async (entry) => { const there = await store.claim(entry); controller.abort(); return there; } };
  await assert.rejects(createOperation({ ...quick, name: 'order', store: slow }).fetch(url, post(undefined, { signal: controller.signal })), NotDoneError);
  assert.deepEqual(await store.list(), []);
});

test('what is older than the retention is not sent again', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1 }).fetch(url, post()), UnknownError);
  const now = Date.now();
  t.mock.method(Date, 'now', () => now + 24 * hour);
  const op = createOperation({ ...quick, name: 'order', store });
  await assert.rejects(op.fetch(url, post()), (error) => error instanceof UnknownError && /forgotten its key/.test(error.message));
  await assert.rejects(op.resume(), UnknownError);
  assert.equal(op.outcome, 'unknown');
  assert.equal(sendings.length, 1);
  assert.equal((await pending({ store })).length, 1);
  await op.discard();
  assert.equal((await op.fetch(url, post())).status, 201);
  assert.notEqual(sendings[1].key, sendings[0].key);
});

test('what was begun in the future may be older than the retention', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1 }).fetch(url, post()), UnknownError);
  const now = Date.now();
  t.mock.method(Date, 'now', () => now - hour);
  await assert.rejects(createOperation({ ...quick, name: 'order', store }).fetch(url, post()), UnknownError);
  assert.equal(sendings.length, 1);
  t.mock.method(Date, 'now', () => now - 60_000); // as clocks are set all the time
  assert.equal((await createOperation({ ...quick, name: 'order', store }).fetch(url, post())).status, 201);
});

test('it is not waited beyond the retention', async (t) => {
  const { url, sendings } = await serve(t, answer(503, { 'Retry-After': '2' }));
  await createOperation({ ...quick, maxDelay: 5000, retention: 1000 }).fetch(url, post());
  assert.equal(sendings.length, 1);
});

test('a body that is too large has its key kept', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  const body = 'x'.repeat(101);
  await assert.rejects(createOperation({ ...quick, name: 'order', store, attempts: 1, maxKeptBody: 100 }).fetch(url, post(body)), UnknownError);
  assert.equal((await store.list())[0].body, undefined);
  const page = otherPage(store);
  assert.equal((await pending({ store: page }))[0].resumable, false);
  const op = createOperation({ ...quick, name: 'order', store: page });
  await assert.rejects(op.resume(), (error) => error instanceof UnknownError && error.key === createdKey(sendings[0]));
  assert.equal((await op.fetch(url, post(body))).status, 201);
  assert.equal(sendings[0].key, sendings[1].key);
});
const createdKey = ({ key }) => key.slice(1, -1);

test('a store that fails loses neither the request nor the key', async (t) => {
  const full = new Error('full');
  for (const [name, broken] of [
    ['rejects', { claim: async () => { throw full; }, remove: async () => { throw full; }, list: async () => { throw full; } }],
    ['throws', { claim: () => { throw full; }, remove: () => { throw full; }, list: () => { throw full; } }],
  ]) {
    await t.test(name, async (t) => {
      const { url, sendings } = await serve(t, cut, created);
      const reports = [];
      const options = { ...quick, name: 'order', store: broken, onstorage: (error) => reports.push(error) };
      await assert.rejects(createOperation({ ...options, attempts: 1 }).fetch(url, post()), UnknownError);
      assert.ok(reports.length > 0 && reports.every((error) => error === full));
      assert.equal((await pending({ store: broken })).length, 1);
      await assert.rejects(createOperation(options).fetch(url, post('other')), MismatchError);
      assert.equal((await createOperation(options).fetch(url, post())).status, 201);
      assert.equal(sendings[0].key, sendings[1].key);
      assert.equal((await pending({ store: broken })).length, 0);
    });
  }
});

test('a store without room for the body keeps the key', async (t) => {
  const { url } = await serve(t, cut);
  const store = memoryStore();
  const small = { ...store, claim: async (entry) => { if (entry.body) throw new Error('full'); return store.claim(entry); } };
  await assert.rejects(createOperation({ ...quick, name: 'order', store: small, attempts: 1 }).fetch(url, post()), UnknownError);
  assert.equal((await store.list()).length, 1);
});

test('a store that begins to work again does not bring a second key', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  const store = memoryStore();
  let works = false;
  const flaky = { ...store, claim: async (entry) => { if (!works) throw new Error('later'); return store.claim(entry); } };
  await assert.rejects(createOperation({ ...quick, name: 'order', store: flaky, attempts: 1 }).fetch(url, post()), UnknownError);
  works = true;
  await createOperation({ ...quick, name: 'order', store: flaky }).fetch(url, post());
  assert.equal(sendings[0].key, sendings[1].key);
});

test('a store that kept it though it seemed to fail does not make it an old one', async (t) => {
  const { url } = await serve(t, answer(401));
  const store = memoryStore();
  let n = 0;
  const flaky = { ...store, claim: async (entry) => { const there = await store.claim(entry); if (n++ === 0) throw new Error('too late'); return there; } };
  const op = createOperation({ ...quick, name: 'order', store: flaky });
  await op.fetch(url, post());
  assert.equal(op.outcome, 'not done'); // of an old one it would be unknown
});

test('an entry that cannot be removed is not taken for the next operation', async (t) => {
  const { url, sendings } = await serve(t, created);
  const store = memoryStore();
  let works = false;
  const flaky = { ...store, remove: async (...args) => { if (!works) throw new Error('later'); return store.remove(...args); } };
  await createOperation({ ...quick, name: 'order', store: flaky }).fetch(url, post());
  assert.deepEqual(await pending({ store: flaky }), []);
  await createOperation({ ...quick, name: 'order', store: flaky }).fetch(url, post());
  works = true;
  await createOperation({ ...quick, name: 'order', store: flaky }).fetch(url, post());
  assert.equal(new Set(sendings.map(key)).size, 3);
});

test('a store that hangs is waited for once', async (t) => {
  const { url } = await serve(t, created);
  const never = () => new Promise(() => {});
  const hanging = { claim: t.mock.fn(never), remove: t.mock.fn(never), list: t.mock.fn(never) };
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const done = createOperation({ ...quick, name: 'order', store: hanging, attemptTimeout: 1e9, totalTimeout: 1e9 }).fetch(url, post());
  while (hanging.claim.mock.callCount() === 0) await new Promise((resolve) => setImmediate(resolve));
  t.mock.timers.tick(3000);
  assert.equal((await done).status, 201);
  assert.equal(hanging.claim.mock.callCount() + hanging.remove.mock.callCount(), 1);
});

// Without locks both send, under the same key.
test('two pages that begin at the same moment have one key', async (t) => {
  let both;
  const arrived = new Promise((resolve) => (both = resolve));
  let n = 0;
  const { url, sendings } = await serve(t, async (res) => {
    if (++n === 2) both();
    await arrived;
    created(res);
  });
  const store = memoryStore();
  navigatorIs(t, {});
  const pages = [store, otherPage(store)].map((store) => createOperation({ ...quick, name: 'order', store }));
  await Promise.all(pages.map((op) => op.fetch(url, post())));
  assert.equal(sendings[0].key, sendings[1].key);
  assert.deepEqual(await store.list(), []);
});

test('Web Locks: the second page waits, then gets the answer under the same key, and is kept meanwhile', async (t) => {
  const locks = fakeLocks();
  navigatorIs(t, { locks });
  const store = memoryStore();
  const states = [];
  let second, kept;
  const { url, sendings } = await serve(t, async (res) => {
    second = createOperation({ ...quick, name: 'order', store: otherPage(store), observe: ({ state }) => states.push(state) }).fetch(url, post());
    while (!states.includes('queued')) await new Promise((resolve) => setImmediate(resolve));
    created(res);
  }, async (res) => {
    kept = await store.list();
    created(res);
  });
  await createOperation({ ...quick, name: 'order', store }).fetch(url, post());
  assert.equal((await second).status, 201);
  assert.deepEqual(states, ['queued', 'sending']);
  assert.equal(sendings[0].key, sendings[1].key);
  assert.equal(kept.length, 1);
  assert.deepEqual(await store.list(), []);
});

test('Web Locks: what the first page removes is not what the second one keeps', async (t) => {
  navigatorIs(t, { locks: fakeLocks() });
  const store = memoryStore();
  // The first page's removal takes longer than the second one's sending, which has to wait for it.
  const lazy = { ...store, remove: async (...args) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return store.remove(...args);
  } };
  const states = [];
  const op = createOperation({ ...quick, attempts: 1, name: 'order', store: otherPage(store), observe: ({ state }) => states.push(state) });
  let second;
  const { url } = await serve(t, async (res) => {
    second = op.fetch(url, post());
    second.catch(() => {});
    while (!states.includes('queued')) await new Promise((resolve) => setImmediate(resolve));
    created(res);
  }, cut);
  await createOperation({ ...quick, name: 'order', store: lazy }).fetch(url, post());
  await assert.rejects(second, UnknownError);
  assert.deepEqual((await store.list()).map(({ key }) => key), [op.key]);
});

test('Web Locks: given up while another page sends it, its outcome is unknown', async (t) => {
  navigatorIs(t, { locks: fakeLocks() });
  const store = memoryStore();
  // The other page has the lock already, and has not kept anything yet.
  let release;
  navigator.locks.request('ichido:order', { ifAvailable: true }, () => new Promise((resolve) => (release = resolve)));
  const controller = new AbortController();
  const observe = ({ state }) => state === 'queued' && controller.abort();
  const op = createOperation({ ...quick, name: 'order', store, observe });
  await assert.rejects(op.fetch('http://unused.invalid/', post(undefined, { signal: controller.signal })), UnknownError);
  release();
  assert.deepEqual((await store.list()).map(({ key }) => key), [op.key]);
});

test('Web Locks that are refused are done without', async (t) => {
  navigatorIs(t, { locks: { request: async () => { throw new DOMException('', 'SecurityError'); } } });
  const { url, sendings } = await serve(t, created);
  assert.equal((await createOperation(quick).fetch(url, post())).status, 201);
  assert.equal(sendings.length, 1);
});

test('offline: it waits, and goes on', async (t) => {
  const navigator = { onLine: false };
  navigatorIs(t, navigator);
  const events = listeners(t);
  const { url, sendings } = await serve(t, created);
  const states = [];
  const done = createOperation({ ...quick, observe: ({ state }) => states.push(state) }).fetch(url, post());
  while (!events.waiting()) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sendings.length, 0);
  navigator.onLine = true;
  events.fire();
  assert.equal((await done).status, 201);
  assert.deepEqual(states, ['offline', 'sending']);
});

test('offline: given up before anything was sent, it is not done', async (t) => {
  navigatorIs(t, { onLine: false });
  listeners(t);
  const op = createOperation({ ...quick, totalTimeout: 50 });
  await assert.rejects(op.fetch('http://unused.invalid/', post()), (error) => error instanceof NotDoneError && error.cause.name === 'TimeoutError');
});

test('webStore keeps what an operation is, and leaves the rest of the storage alone', async (t) => {
  const storage = fakeStorage({ other: 'of the page' });
  const { url, sendings } = await serve(t, cut, created);
  const body = new Uint8Array([0, 127, 128, 255]);
  await assert.rejects(createOperation({ ...quick, name: 'order', store: webStore(storage), attempts: 1 }).fetch(url, post(body)), UnknownError);
  assert.equal((await pending({ store: webStore(storage) })).length, 1);
  const op = createOperation({ ...quick, name: 'order', store: webStore(storage) });
  assert.equal((await op.resume()).status, 201);
  assert.equal(sendings[0].key, sendings[1].key);
  assert.deepEqual([...sendings[1].body], [...body]);
  assert.equal(storage.length, 1);
});

function navigatorIs(t, value) {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
  t.after(() => (before ? Object.defineProperty(globalThis, 'navigator', before) : delete globalThis.navigator));
}

function listeners(t) {
  const target = new EventTarget();
  let n = 0;
  globalThis.addEventListener = (...args) => { n++; target.addEventListener(...args); };
  t.after(() => delete globalThis.addEventListener);
  return { waiting: () => n > 0, fire: () => target.dispatchEvent(new Event('online')) };
}

function fakeLocks() {
  const tails = new Map();
  return {
    async request(name, { ifAvailable, signal }, work) {
      if (ifAvailable && tails.has(name)) return work(null);
      signal?.throwIfAborted();
      const result = (tails.get(name) ?? Promise.resolve()).then(() => work({ name }));
      const tail = result.catch(() => {}).finally(() => tails.get(name) === tail && tails.delete(name));
      tails.set(name, tail);
      return result;
    },
  };
}

function fakeStorage(entries) {
  const map = new Map(Object.entries(entries));
  return {
    get length() { return map.size; },
    key: (i) => [...map.keys()][i] ?? null,
    getItem: (name) => map.get(name) ?? null,
    setItem: (name, value) => void map.set(name, String(value)),
    removeItem: (name) => void map.delete(name),
  };
}
