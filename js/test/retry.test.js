import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';
import test from 'node:test';
import { createOperation, NotDoneError, UnknownError } from '../ichido.js';
import { answer, created, cut, half, post, problem, quick, serve, silence } from './server.js';

const UUID = /^"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"$/;

test('an operation has one key, which is sent quoted, above all attempts', async (t) => {
  const { url, sendings } = await serve(t, cut, half, answer(503), created);
  const op = createOperation(quick);
  const key = op.key;
  const response = await op.fetch(url, post());
  assert.equal(response.status, 201);
  assert.deepEqual(await response.json(), { id: 1 });
  assert.equal(op.outcome, 'done');
  assert.equal(op.attempts, 4);
  assert.equal(op.key, key);
  assert.match(sendings[0].key, UUID);
  for (const sending of sendings) {
    assert.equal(sending.key, `"${key}"`);
    assert.equal(sending.body.toString(), '{"item":"chair"}');
    assert.equal(sending.headers['content-type'], 'application/json');
  }
  assert.notEqual(createOperation().key, key);
});

test('the key goes bare, escaped, or in another field where that is asked for', async (t) => {
  const { url, sendings } = await serve(t, created);
  await createOperation({ key: 'order-1', quoted: false, header: 'X-Request-Key' }).fetch(url, post());
  assert.equal(sendings[0].headers['x-request-key'], 'order-1');
  assert.equal(sendings[0].key, undefined);
  await createOperation({ key: 'a"b\\c' }).fetch(url, post());
  assert.equal(sendings[1].key, '"a\\"b\\\\c"');
  for (const options of [{ key: '' }, { key: '予約' }, { key: 'x'.repeat(256) }, { key: 'a b', quoted: false }, { name: '' }]) {
    assert.throws(() => createOperation(options), TypeError);
  }
});

// After one sending with each answer: how many sendings there are in all, and the outcome.
const answers = [
  ['200', answer(200), 1, 'done'],
  ['303', answer(303), 1, 'done'],
  ['302, which may be to a login', answer(302), 1, 'unknown'],
  ['307', answer(307), 1, 'not done'],
  ['400', answer(400), 1, 'not done'],
  ['401', answer(401), 1, 'not done'],
  ['404', answer(404), 1, 'not done'],
  ['422', answer(422), 1, 'not done'],
  ['501', answer(501), 1, 'not done'],
  ['505', answer(505), 1, 'not done'],
  ['507, which says nothing of the effect', answer(507), 1, 'unknown'],
  ['a bare 409, which may mean anything', answer(409), 1, 'not done'],
  ['408', answer(408), 2, 'done'],
  ['425', answer(425), 2, 'done'],
  ['429', answer(429), 2, 'done'],
  ['500', answer(500), 2, 'done'],
  ['502', answer(502), 2, 'done'],
  ['503', answer(503), 2, 'done'],
  ['504', answer(504), 2, 'done'],
  ['409 in-progress', problem(409, { code: 'in-progress', retryable: true }), 2, 'done'],
  ['409 of the draft', problem(409, { title: 'A request is outstanding for this Idempotency-Key' }), 2, 'done'],
  ['409 outcome-unknown', problem(409, { code: 'outcome-unknown', retryable: false }), 1, 'unknown'],
  ['409 answer-not-kept', problem(409, { code: 'answer-not-kept' }, { 'Idempotent-Replayed': 'true' }), 1, 'done'],
  ['422 mismatch', problem(422, { code: 'mismatch', retryable: false }), 1, 'not done'],
  ['403 replay-refused', problem(403, { code: 'replay-refused' }), 1, 'done'],
  ['500 record-unreadable', problem(500, { code: 'record-unreadable' }), 1, 'done'],
  ['500 attempt-failed', problem(500, { code: 'attempt-failed', retryable: false }), 1, 'unknown'],
  ['500 attempt-repeatable', problem(500, { code: 'attempt-repeatable', retryable: true }), 2, 'done'],
  ['500 response-not-storable', problem(500, { code: 'response-not-storable', retryable: false }), 1, 'not done'],
  ['503 commit-unknown', problem(503, { code: 'commit-unknown', retryable: true }), 2, 'done'],
  ['400 body-unreadable', problem(400, { code: 'body-unreadable', retryable: true }), 2, 'done'],
  ['500 of a newer code, not retryable', problem(500, { code: 'new', retryable: false }), 1, 'unknown'],
  ['409 of a newer code, retryable', problem(409, { code: 'new', retryable: true }), 2, 'done'],
  ['a code that every object has', problem(503, { code: 'constructor' }), 2, 'done'],
  ['a problem that is null', problem(409, null), 1, 'not done'],
  ['a problem that is no JSON', answer(409, { 'Content-Type': 'application/problem+json' }, '{'), 1, 'not done'],
  ['in-progress in JSON that is no problem', answer(409, { 'Content-Type': 'application/json' }, '{"code":"in-progress"}'), 1, 'not done'],
  ['a replayed 400', answer(400, { 'Idempotent-Replayed': 'true' }), 1, 'not done'],
  ['a replayed 503', answer(503, { 'Idempotent-Replayed': 'true' }), 1, 'unknown'],
  ['503 with X-Should-Retry: false', answer(503, { 'X-Should-Retry': 'false' }), 1, 'unknown'],
  ['409 with Stripe-Should-Retry: true', answer(409, { 'Stripe-Should-Retry': 'true' }), 2, 'done'],
  ['422 with X-Should-Retry: true', answer(422, { 'X-Should-Retry': 'true' }), 1, 'not done'],
  ['a cut connection', cut, 2, 'done'],
  ['half an answer', half, 2, 'done'],
];
for (const [name, first, count, outcome] of answers) {
  test(`answer: ${name}`, async (t) => {
    const { url, sendings } = await serve(t, first, answer(200));
    const op = createOperation(quick);
    await op.fetch(url, post(undefined, { redirect: 'manual' }));
    assert.equal(sendings.length, count);
    assert.equal(op.outcome, outcome);
  });
}

// What comes from in front of the server's keys says nothing of a sending that was lost before.
for (const [name, second, outcome] of [
  ['401', answer(401), 'unknown'],
  ['422', answer(422), 'unknown'],
  ['422 mismatch', problem(422, { code: 'mismatch' }), 'unknown'],
  ['a replayed 400', answer(400, { 'Idempotent-Replayed': 'true' }), 'not done'],
  ['201', created, 'done'],
]) {
  test(`answer after a lost one: ${name}`, async (t) => {
    const { url } = await serve(t, cut, second);
    const op = createOperation(quick);
    await op.fetch(url, post());
    assert.equal(op.outcome, outcome);
  });
}

test('a redirection after a lost answer does not tell, unless judge knows', async (t) => {
  const there = answer(302, { Location: '/elsewhere' });
  for (const [answers, options, outcome] of [
    [[there, answer(200)], {}, 'done'],
    [[cut, there, answer(200)], {}, 'unknown'],
    [[cut, there, answer(200)], { judge: ({ url }) => (url.endsWith('/elsewhere') ? 'succeeded' : undefined) }, 'done'],
  ]) {
    const { url } = await serve(t, ...answers);
    const op = createOperation({ ...quick, ...options });
    assert.equal((await op.fetch(url, post())).status, 200);
    assert.equal(op.outcome, outcome);
  }
});

test('judge says what an answer means', async (t) => {
  const { url, sendings } = await serve(t, problem(409, { type: 'busy' }), created);
  const op = createOperation({ ...quick, judge: (response, { type }) => (response.status === 409 && type === 'busy' ? 'in progress' : undefined) });
  await op.fetch(url, post());
  assert.equal(sendings.length, 2);
});

test('the last answer is returned, and the operation goes on under its key', async (t) => {
  const { url, sendings } = await serve(t, answer(503, {}, 'one'), answer(503, {}, 'two'), created);
  const op = createOperation({ ...quick, attempts: 2 });
  const response = await op.fetch(url, post());
  assert.equal(response.status, 503);
  assert.equal(await response.text(), 'two');
  assert.equal(op.outcome, 'unknown');
  assert.equal((await op.fetch(url, post())).status, 201);
  assert.equal(op.attempts, 1);
  assert.equal(new Set(sendings.map(({ key }) => key)).size, 1);
  await assert.rejects(op.fetch(url, post()), /this operation is done/);
});

test('answers that exclude an effect leave it not done', async (t) => {
  const { url } = await serve(t, answer(429));
  const op = createOperation({ ...quick, attempts: 3 });
  assert.equal((await op.fetch(url, post())).status, 429);
  assert.equal(op.attempts, 3);
  assert.equal(op.outcome, 'not done');
});

test('without an answer the outcome is unknown, and the error has the key', async (t) => {
  const { url } = await serve(t, cut);
  const op = createOperation({ ...quick, attempts: 3 });
  await assert.rejects(op.fetch(url, post()), (error) => {
    assert.ok(error instanceof UnknownError);
    assert.equal(error.name, 'UnknownError');
    assert.equal(error.key, op.key);
    assert.equal(error.attempts, 3);
    assert.ok(!error.message.includes(op.key));
    assert.ok(error.cause instanceof TypeError);
    return true;
  });
});

/** An address where nothing listens. */
async function nowhere() {
  const socket = createServer().listen(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  await once(socket, 'close');
  return `http://127.0.0.1:${port}/`;
}

test('where nothing listens, nothing was done', async () => {
  const op = createOperation({ ...quick, attempts: 2 });
  await assert.rejects(op.fetch(await nowhere(), post(undefined, { redirect: 'manual' })), NotDoneError);
  assert.equal(op.attempts, 2);
});

test('where nothing listens at the end of a redirection, it may have been done', async (t) => {
  const { url, sendings } = await serve(t, answer(303, { Location: await nowhere() }));
  const op = createOperation({ ...quick, attempts: 2 });
  await assert.rejects(op.fetch(url, post()), (error) => error instanceof UnknownError && error.cause.cause.code === 'ECONNREFUSED');
  assert.equal(op.outcome, 'unknown');
  assert.equal(sendings.length, 2);
});

test('a fetch that does not look at its signal is given up all the same', async () => {
  let n = 0;
  const fetch = () => (++n === 1 ? new Promise(() => {}) : Promise.resolve(new Response('', { status: 201 })));
  const op = createOperation({ ...quick, attemptTimeout: 50, fetch });
  assert.equal((await op.fetch('http://unused.invalid/', post())).status, 201);
  assert.equal(op.attempts, 2);
});

test('many attempts leave no listeners behind', async (t) => {
  const listening = new Map();
  const count = (signal, n) => listening.set(signal, (listening.get(signal) ?? 0) + n);
  const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
  let most = 0;
  t.mock.method(EventTarget.prototype, 'addEventListener', function (...args) {
    count(this, 1);
    most = Math.max(most, listening.get(this));
    return add.apply(this, args);
  });
  t.mock.method(EventTarget.prototype, 'removeEventListener', function (...args) {
    count(this, -1);
    return remove.apply(this, args);
  });
  const controller = new AbortController();
  const fetch = async () => { throw new TypeError('lost'); };
  const op = createOperation({ attempts: 50, baseDelay: 0, fetch });
  await assert.rejects(op.fetch('http://unused.invalid/', post(undefined, { signal: controller.signal })), UnknownError);
  assert.equal(op.attempts, 50);
  assert.equal(listening.get(controller.signal), 0);
  assert.ok(most < 10, `${most} listeners of one signal`);
});

test('an attempt that takes too long is given up, and sent again', async (t) => {
  const { url, sendings } = await serve(t, silence, (res) => res.writeHead(201).write('half, then nothing'), created);
  const op = createOperation({ ...quick, attemptTimeout: 250 });
  assert.equal((await op.fetch(url, post())).status, 201);
  assert.equal(sendings.length, 3);
});

test('the total time bounds everything', async (t) => {
  const { url } = await serve(t, silence);
  await assert.rejects(createOperation({ ...quick, totalTimeout: 200 }).fetch(url, post()),
    (error) => error instanceof UnknownError && error.cause.name === 'TimeoutError');
  const later = await serve(t, answer(503));
  const op = createOperation({ ...quick, baseDelay: 1e6, maxDelay: 1e6, totalTimeout: 100_000, attempts: 100 });
  t.mock.method(Math, 'random', () => 0.9);
  assert.equal((await op.fetch(later.url, post())).status, 503); // it does not sleep into its end
  assert.equal(op.attempts, 1);
});

test('Retry-After is waited for, in seconds and as a date', async (t) => {
  const dated = (res) => res.writeHead(503, { 'Date': 'Sun, 06 Nov 1994 08:49:36 GMT', 'Retry-After': 'Sun, 06 Nov 1994 08:49:37 GMT' }).end();
  for (const first of [answer(503, { 'Retry-After': '1' }), dated]) {
    const { url, sendings } = await serve(t, first, created);
    await createOperation(quick).fetch(url, post());
    const waited = sendings[1].at - sendings[0].at;
    assert.ok(waited > 950, `waited ${waited} ms`);
  }
});

test('a Retry-After that is too long ends at once, with the answer', async (t) => {
  for (const [hint, more] of [['3', {}], ['2', { totalTimeout: 1500 }], ['99999999999999999999', {}], ['Fri, 31 Dec 9999 23:59:59 GMT', {}]]) {
    const { url, sendings } = await serve(t, answer(503, { 'Retry-After': hint }));
    const response = await createOperation({ ...quick, ...more }).fetch(url, post());
    assert.equal(response.status, 503);
    assert.equal(sendings.length, 1);
  }
});

test('a Retry-After that is none is ignored', async (t) => {
  for (const hint of ['-1', '1.5', 'soon', '99999999999 s', '']) {
    const { url, sendings } = await serve(t, answer(503, { 'Retry-After': hint }), created);
    await createOperation({ baseDelay: 1, maxDelay: 500 }).fetch(url, post());
    assert.equal(sendings.length, 2, hint);
  }
});

test('waits are random, and grow up to maxDelay', async (t) => {
  const { url } = await serve(t, answer(503));
  const waits = [];
  t.mock.method(Math, 'random', () => 0.5);
  await createOperation({ attempts: 6, baseDelay: 4, maxDelay: 20, observe: ({ wait }) => wait !== undefined && waits.push(wait) }).fetch(url, post());
  assert.deepEqual(waits, [2, 4, 8, 10, 10]);
});

test('an abort before anything is sent: not done', async (t) => {
  const { url, sendings } = await serve(t, created);
  const reason = new Error('left');
  const op = createOperation(quick);
  await assert.rejects(op.fetch(url, post(undefined, { signal: AbortSignal.abort(reason) })),
    (error) => error instanceof NotDoneError && error.cause === reason);
  assert.equal(sendings.length, 0);
  assert.equal((await op.fetch(url, post())).status, 201);
});

test('an abort while it is sent or about to be sent again: unknown', async (t) => {
  for (const first of [silence, cut]) {
    const controller = new AbortController();
    const reason = new Error('left');
    const { url, sendings } = await serve(t, (res) => {
      if (first === silence) controller.abort(reason);
      first(res);
    });
    const observe = ({ state }) => state === 'waiting' && queueMicrotask(() => controller.abort(reason));
    t.mock.method(Math, 'random', () => 0.9);
    await assert.rejects(createOperation({ baseDelay: 60_000, maxDelay: 60_000, observe }).fetch(url, post(undefined, { signal: controller.signal })),
      (error) => error instanceof UnknownError && error.cause === reason);
    assert.equal(sendings.length, 1);
  }
});

test('hooks that throw do not harm', async (t) => {
  const { url } = await serve(t, cut, created);
  const reported = t.mock.method(console, 'error', () => {});
  const op = createOperation({ ...quick, observe: () => { throw new Error('of the page'); } });
  assert.equal((await op.fetch(url, post())).status, 201);
  assert.ok(reported.mock.callCount() >= 3 || globalThis.reportError);
});

test('requests that no operation is for are refused', async (t) => {
  const { url, sendings } = await serve(t, created);
  for (const [input, init] of [
    [url], [url, { method: 'HEAD' }], [url, post(undefined, { mode: 'no-cors' })],
    [url, { method: 'POST', headers: { 'idempotency-key': 'mine' } }], ['http://', post()],
  ]) {
    await assert.rejects(createOperation(quick).fetch(input, init), TypeError);
  }
  assert.equal(sendings.length, 0);
});

test('every kind of body has the same bytes each time', async (t) => {
  const form = new FormData();
  form.append('item "a"\r\nb', 'two\nlines');
  form.append('file', new File(['\r\nraw\n'], '図.txt', { type: 'text/plain' }));
  const stream = () => new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('streamed')); c.close(); } });
  const url0 = 'http://unused.invalid/';
  for (const [name, init, type] of [
    ['none', { method: 'POST' }, undefined],
    ['text', { method: 'PUT', body: 'a' }, 'text/plain;charset=UTF-8'],
    ['fields', { method: 'POST', body: new URLSearchParams({ a: '1' }) }, 'application/x-www-form-urlencoded;charset=UTF-8'],
    ['bytes', { method: 'PATCH', body: new Uint8Array([0, 255]) }, undefined],
    ['blob', { method: 'POST', body: new Blob(['x'], { type: 'image/png' }) }, 'image/png'],
    ['form', { method: 'POST', body: form }, /^multipart\/form-data; boundary=ichido-[0-9a-f]{32}$/],
    ['stream', { method: 'POST', body: stream(), duplex: 'half' }, undefined],
    ['request', new Request(url0, post('in a request')), 'application/json'],
  ]) {
    await t.test(name, async (t) => {
      const { url, sendings } = await serve(t, cut, created);
      await createOperation(quick).fetch(...(init instanceof Request ? [new Request(url, init)] : [url, init]));
      const [one, two] = sendings;
      assert.deepEqual(one.body, two.body);
      assert.equal(one.method, init.method);
      const got = one.headers['content-type'];
      type instanceof RegExp ? assert.match(got, type) : assert.equal(got, type);
      if (name !== 'form') return;
      const parsed = await new Response(one.body, { headers: { 'Content-Type': got } }).formData();
      assert.deepEqual([...parsed.keys()], ['item "a"\r\nb', 'file']);
      assert.equal(parsed.get('item "a"\r\nb'), 'two\r\nlines');
      assert.equal(parsed.get('file').name, '図.txt');
      assert.equal(await parsed.get('file').text(), '\r\nraw\n');
      assert.equal(parsed.get('file').type, 'text/plain');
      const again = await serve(t, created);
      await createOperation(quick).fetch(again.url, init);
      assert.deepEqual(again.sendings[0].body, one.body); // another operation with the same form too
    });
  }
});

test('fetch can be wrapped, as for a token of each attempt', async (t) => {
  const { url, sendings } = await serve(t, cut, created);
  let n = 0;
  const wrapped = (url, init) => {
    init.headers.set('Authorization', `Bearer ${++n}`);
    return fetch(url, init);
  };
  await createOperation({ ...quick, fetch: wrapped }).fetch(url, post());
  assert.deepEqual(sendings.map(({ headers }) => headers.authorization), ['Bearer 1', 'Bearer 2']);
});
