// A form that is submitted twice, or over a bad network, takes effect once.
//
// An operation is what the user did once. All of its sendings carry one key, in the field Idempotency-Key, so that the
// server does it once and gives each sending the same answer. ichido.d.ts says what everything here is for.

const defaults = {
  header: 'Idempotency-Key', quoted: true,
  attempts: 6, baseDelay: 200, maxDelay: 30_000, attemptTimeout: 30_000, totalTimeout: 120_000,
  retention: 24 * 3600_000, maxKeptBody: 1 << 20,
};

// Opening a database can hang, and no request may wait for that.
const STORE_TIMEOUT = 3000;

// Fields that are kept with a request. Others may be secrets, or good for one page only: resume() takes them anew.
const KEPT_FIELDS = ['accept', 'accept-language', 'content-type'];

export class OperationError extends Error {
  constructor(message, { key, name, attempts }, cause) {
    super(`ichido: ${message}`, { cause }); // without the key, since messages are logged
    Object.assign(this, { name: new.target.name, key, operation: name, attempts });
  }
}
export class NotDoneError extends OperationError {}
export class UnknownError extends OperationError {}
export class MismatchError extends OperationError {}

export const createOperation = (options) => new Operation(options);

class Operation {
  #options;
  #keeper;
  #slot; // what the keeper knows it by
  #started;
  #digest;
  #open = false; // an earlier sending may have taken effect, or may do so yet
  name;
  key;
  outcome;
  attempts = 0;

  constructor(options = {}) {
    const o = (this.#options = { ...defaults });
    for (const [name, value] of Object.entries(options)) if (value !== undefined) o[name] = value;
    if (o.name === '') throw new TypeError('ichido: the name of an operation is empty');
    this.name = o.name;
    this.key = o.key ?? uuid();
    if (!/^[ -~]{1,255}$/.test(this.key)) throw new TypeError('ichido: a key is 1 to 255 printable ASCII characters');
    if (!o.quoted && /[ ",;]/.test(this.key)) throw new TypeError('ichido: a key with spaces, quotes, commas or semicolons must be quoted');
    this.#slot = o.name ?? this.key;
    // Without a name there is nothing by which another page could find it.
    this.#keeper = o.name === undefined ? new Keeper(memoryStore()) : keeperOf(o.store ?? defaultStore());
  }

  fetch(input, init = {}) {
    return this.#run(prepare(input, init, this.#options.header), init.signal ?? input?.signal);
  }

  async resume(init = {}) {
    const entry = await this.#find();
    if (!entry) return undefined;
    this.#adopt(entry);
    if (!entry.body) {
      this.outcome = 'unknown';
      throw new UnknownError('its body was not kept; when the user submits it again, it goes on', this);
    }
    const headers = new Headers(entry.headers);
    new Headers(init.headers).forEach((value, field) => headers.set(field, value));
    const { method, url, body, digest, credentials } = entry;
    return this.#run(Promise.resolve({ method, url, headers, body, digest, init: { credentials, ...init } }), init.signal);
  }

  async discard() {
    const entry = await this.#find();
    if (entry) await this.#keeper.remove(entry.name, entry.key, this.#options.onstorage);
    this.#keeper.flights.delete(this.#slot);
    this.key = this.#options.key ?? uuid();
    this.#started = this.#digest = this.outcome = undefined;
    this.#open = false;
  }

  // One call of a name at a time sends; the others, such as a double click, get its answer. Nothing is awaited before
  // flights.set(), so that two cannot both be first.
  async #run(prepared, signal) {
    prepared.catch(() => {});
    if (this.outcome === 'done') throw new TypeError('ichido: this operation is done; what the user does next is another one: call createOperation() in the event listener');
    const { flights } = this.#keeper;
    for (let flight; (flight = flights.get(this.#slot)); ) {
      flight.shared = true;
      const answer = await this.#join(flight, await prepared, signal);
      if (answer) return answer;
    }
    const flight = { prepared, signal, operation: this };
    flight.answer = this.#lead(prepared, signal).finally(() => {
      if (flights.get(this.#slot) === flight) flights.delete(this.#slot);
    });
    flights.set(this.#slot, flight);
    const answer = await flight.answer;
    return flight.shared ? answer.clone() : answer;
  }

  // Returns nothing if the first one did not come to an end that is this one's too.
  async #join(flight, request, signal) {
    const first = flight.operation;
    const theirs = await flight.prepared.catch(() => {});
    if (theirs && theirs.digest !== request.digest) throw this.#mismatch(first);
    const stop = deadline(signal, this.#options.totalTimeout);
    try {
      return (await Promise.race([flight.answer, aborted(stop.signal)])).clone();
    } catch (error) {
      if (!stop.signal.aborted && (!theirs || flight.signal?.aborted)) return undefined; // only the first one's caller gave up
      if (error instanceof OperationError) throw error;
      throw new UnknownError('its answer was not waited for', first, error);
    } finally {
      stop.end();
      this.key = first.key;
      this.attempts = first.attempts;
      this.outcome = first.outcome ?? 'unknown';
      this.#digest = request.digest;
      this.#started = first.#started;
      this.#open ||= this.outcome === 'unknown';
    }
  }

  async #lead(prepared, signal) {
    const request = await prepared;
    if (this.#digest !== undefined && this.#digest !== request.digest) throw this.#mismatch(this);
    this.outcome = undefined;
    this.attempts = 0;
    const stop = deadline(signal, this.#options.totalTimeout);
    let entry;
    try {
      entry = await this.#claim(request);
      return await alone(this.#slot, stop.signal, () => this.#queued(), () => this.#sendKept(entry, request, stop));
    } catch (error) {
      if (error instanceof OperationError) throw error;
      const failure = this.#failure(error);
      await this.#forget(entry);
      throw failure;
    } finally {
      stop.end();
    }
  }

  #queued() {
    this.#open = true; // the other tab may be sending it
    this.#observe('queued');
  }

  // Ends before the next tab begins, which keeps the entry again.
  async #sendKept(entry, request, stop) {
    await this.#keeper.claim(entry, this.#options.onstorage); // the tab that went first may have removed it
    try {
      return await this.#send(request, stop);
    } catch (error) {
      throw this.#failure(error);
    } finally {
      await this.#forget(entry);
    }
  }

  async #forget(entry) {
    if (entry && this.outcome !== 'unknown') await this.#keeper.remove(entry.name, entry.key, this.#options.onstorage);
  }

  // Keeps the request before its first byte is sent, or finds what was kept of it before.
  async #claim({ method, url, headers, body, digest, init }) {
    const { maxKeptBody, retention, key, onstorage } = this.#options;
    const now = Date.now();
    const mine = {
      name: this.#slot, key: this.key, started: this.#started ?? now, digest, method, url, credentials: init.credentials,
      headers: [...headers].filter(([field]) => KEPT_FIELDS.includes(field)),
      body: body.byteLength <= maxKeptBody ? body : undefined,
    };
    const there = await this.#keeper.claim(mine, onstorage);
    if (there) {
      if (there.digest !== digest || (key !== undefined && key !== there.key)) throw this.#mismatch(there);
      this.#adopt(there);
    }
    this.#started ??= now;
    this.#digest = digest;
    const age = now - this.#started;
    if (age >= retention || age < -300_000) { // from the future: the clock was set back, and tells no age
      this.outcome = 'unknown';
      throw new UnknownError('the server may have forgotten its key, and do it twice; find out what became of it, then discard()', this);
    }
    return there ?? mine;
  }

  async #send(request, stop) {
    const { header, quoted } = this.#options;
    const headers = new Headers(request.headers);
    headers.set(header, quoted ? `"${this.key.replace(/["\\]/g, '\\$&')}"` : this.key);
    for (;;) {
      await this.#online(stop);
      this.attempts++;
      this.#observe('sending');
      let response, body, error, verdict, final;
      try {
        [response, body] = await this.#attempt(request, headers, stop);
        [verdict, final] = this.#judge(response, problemOf(response, body));
      } catch (e) {
        error = e;
        // After a redirection, it would be the result that cannot be reached.
        verdict = !stop.signal.aborted && ['manual', 'error'].includes(request.init.redirect) && unsent(e) ? 'try again' : 'uncertain';
      }
      const wait = final || stop.signal.aborted || !AGAIN.includes(verdict) ? -1 : this.#wait(response, stop);
      if (OPEN.includes(verdict)) this.#open = true;
      if (wait < 0) {
        if (!response) throw error;
        this.outcome = outcomeOf(verdict, this.#open);
        return response;
      }
      this.#observe('waiting', { wait, status: response?.status, error });
      await sleep(wait, stop.signal);
    }
  }

  async #attempt(request, headers, stop) {
    const { attemptTimeout, fetch = globalThis.fetch } = this.#options;
    const limit = deadline(stop.signal, attemptTimeout);
    try {
      const body = request.body.byteLength ? request.body : undefined;
      const over = aborted(limit.signal); // a fetch of the page's own may not look at the signal
      const response = await Promise.race([fetch(request.url, { ...request.init, method: request.method, headers, body, signal: limit.signal }), over]);
      // An answer whose body breaks off is lost, as much as one that never came.
      return [response, await Promise.race([response.clone().arrayBuffer(), over])];
    } finally {
      limit.end();
    }
  }

  // What an answer means, by the rules of the Go client, and whether it is the last in any case.
  #judge(response, problem) {
    const { status, headers, redirected } = response;
    if (status >= 200 && status < 400 && !redirected) return [byStatus(status)];
    if (headers.get('Idempotent-Replayed') === 'true') {
      return [CODES[problem?.code] ?? (status < 500 ? 'failed' : 'unresolved'), true];
    }
    // A redirection was to the result, or to a login, which does not tell what became of an earlier sending.
    const verdict = this.#options.judge?.(response.clone(), problem) ?? judgeProblem(status, problem) ?? (redirected && this.#open ? 'unresolved' : byStatus(status));
    const retry = headers.get('Stripe-Should-Retry') ?? headers.get('X-Should-Retry');
    if (retry === 'true' && verdict === 'refused' && status !== 422 && status !== 501) return ['uncertain'];
    return [verdict, retry === 'false'];
  }

  // How long to wait before the next attempt, or -1 if there is to be none.
  #wait(response, stop) {
    const { attempts, baseDelay, maxDelay, retention } = this.#options;
    if (this.attempts >= attempts) return -1;
    const left = Math.min(stop.until, this.#started + retention) - Date.now();
    let wait = Math.random() * Math.min(maxDelay, baseDelay * 2 ** (this.attempts - 1));
    const hint = response && retryAfter(response.headers);
    if (hint > maxDelay) return -1;
    if (hint !== undefined) {
      wait = Math.min(hint + wait, maxDelay); // not earlier than asked, and not all clients at once
      if (wait >= left) wait = hint;
    }
    return wait < left ? wait : -1;
  }

  async #online({ signal }) {
    while (globalThis.navigator?.onLine === false) {
      this.#observe('offline');
      const back = new Promise((resolve) => addEventListener('online', resolve, { once: true, signal }));
      await Promise.race([back, aborted(signal)]);
    }
    signal.throwIfAborted();
  }

  #observe(state, more) {
    guarded(this.#options.observe, { state, name: this.name, key: this.key, attempt: this.attempts, ...more });
  }

  #find() {
    return this.#keeper.get(this.#slot, this.#options.onstorage);
  }

  // Goes on with what was kept: whether it was sent, nobody knows.
  #adopt({ key, started, digest }) {
    this.key = key;
    this.#started = started;
    this.#digest = digest;
    this.#open = true;
  }

  #failure(cause) {
    this.outcome = this.#open ? 'unknown' : 'not done';
    return this.#open
      ? new UnknownError('unknown whether it was done; the same request under the same key tells', this, cause)
      : new NotDoneError('not done', this, cause);
  }

  #mismatch({ key }) {
    const text = this.name === undefined ? 'an operation is one request, and this is another'
      : 'it is not known yet what became of another request of this name: resume() it, or discard() it';
    return new MismatchError(text, { key, name: this.name, attempts: 0 });
  }
}

export async function pending({ store = defaultStore(), onstorage } = {}) {
  const entries = await keeperOf(store).list(onstorage);
  return entries.map(({ name, key, started, method, url, body }) => ({ name, key, started, method, url, resumable: body !== undefined }));
}

// What answers mean. Verdicts are those of the Go client.

const AGAIN = ['try again', 'in progress', 'uncertain'];
const OPEN = ['in progress', 'uncertain', 'unresolved'];

const CODES = { // of ichido's problems
  __proto__: null,
  'in-progress': 'in progress', 'mismatch': 'mismatch', 'response-not-storable': 'refused',
  'store-unavailable': 'try again', 'contention': 'try again', 'not-committed': 'try again', 'handler-failed': 'try again', 'body-unreadable': 'try again',
  'commit-unknown': 'uncertain', 'attempt-repeatable': 'uncertain',
  'outcome-unknown': 'unresolved', 'attempt-failed': 'unresolved',
  'replay-refused': 'succeeded', 'record-unreadable': 'succeeded', 'answer-not-kept': 'succeeded',
};

function byStatus(status) {
  if ((status >= 200 && status < 300) || status === 303) return 'succeeded';
  if (status === 425 || status === 429) return 'try again';
  if ([408, 500, 502, 503, 504].includes(status)) return 'uncertain';
  return (status >= 400 && status < 500) || [307, 308, 501, 505].includes(status) ? 'refused' : 'unresolved';
}

function judgeProblem(status, problem) {
  if (CODES[problem?.code]) return CODES[problem.code];
  // The draft has no code, but this title.
  if (status === 409 && problem?.title === 'A request is outstanding for this Idempotency-Key') return 'in progress';
  // A code that is newer than this client, or of the service's own.
  if (problem?.retryable === true) return 'uncertain';
  return problem?.retryable === false && byStatus(status) === 'uncertain' ? 'unresolved' : undefined;
}

function outcomeOf(verdict, open) {
  if (verdict === 'succeeded') return 'done';
  return open && verdict !== 'failed' ? 'unknown' : 'not done';
}

function problemOf(response, body) {
  if (!/^application\/problem\+json\b/i.test(response.headers.get('Content-Type'))) return undefined;
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

// Node tells that there was no connection; browsers do not.
const unsent = (error) => ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'].includes(error?.cause?.code);

// Retry-After in milliseconds. A date is compared with the Date of the same answer, where a script may read it, so that the
// clocks of two hosts are not.
function retryAfter(headers) {
  const value = headers.get('Retry-After');
  if (/^\d+$/.test(value)) return value * 1000;
  const date = /^[A-Z][a-z]+, .* GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - (Date.parse(headers.get('Date')) || Date.now()));
}

// Reads a request whole, so that all of its sendings have the same bytes.
async function prepare(input, init, header) {
  const body = init.body instanceof FormData ? await multipart(init.body) : init.body;
  const request = new Request(input, { ...init, body, signal: null });
  const { method, url, headers, credentials, mode, cache, redirect, referrerPolicy, integrity, keepalive } = request;
  if (method === 'GET' || method === 'HEAD') throw new TypeError(`ichido: ${method} changes nothing; name the method, such as POST`);
  if (mode === 'no-cors') throw new TypeError('ichido: a request in the mode no-cors cannot carry a key');
  if (headers.has(header)) throw new TypeError(`ichido: the operation sets ${header}; a key of your own goes to createOperation({ key })`);
  const bytes = await request.arrayBuffer();
  const digest = await digestOf([[method, url, headers.get('Content-Type'), ''].join('\n'), bytes]);
  return { method, url, headers, body: bytes, digest, init: { ...init, credentials, mode, cache, redirect, referrerPolicy, integrity, keepalive } };
}

// Browsers write a FormData with a random boundary, so that no two sendings of a form have the same bytes. Here it
// follows from the content.
async function multipart(form) {
  const lines = (text, to) => text.replace(/\r\n|\r|\n/g, to);
  const quote = (text) => `"${lines(text, '%0D%0A').replace(/"/g, '%22')}"`;
  const write = (boundary) => {
    const parts = [];
    for (const [name, value] of form) {
      parts.push(`--${boundary}\r\nContent-Disposition: form-data; name=${quote(name)}`);
      if (typeof value === 'string') parts.push(`\r\n\r\n${lines(value, '\r\n')}\r\n`);
      else parts.push(`; filename=${quote(value.name)}\r\nContent-Type: ${value.type || 'application/octet-stream'}\r\n\r\n`, value, '\r\n');
    }
    return new Blob([...parts, `--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` });
  };
  return write(`ichido-${(await digestOf([write('')])).slice(-32)}`);
}

const hex = (numbers, digits) => Array.from(numbers, (n) => n.toString(16).padStart(digits, '0')).join('');

// Tells one request from another in this browser, no more. Insecure contexts have no SHA-256 and get 64 weaker bits.
async function digestOf(parts) {
  const bytes = await new Blob(parts).arrayBuffer();
  if (globalThis.crypto.subtle) return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)), 2);
  let a = 0x811c9dc5, b = 0x9747b28c;
  for (const byte of new Uint8Array(bytes)) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(((b << 5) | (b >>> 27)) ^ byte, 0x85ebca6b);
  }
  return hex([a >>> 0, b >>> 0], 8).repeat(2);
}

function uuid() {
  if (globalThis.crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // insecure contexts have no randomUUID
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return hex(bytes, 2).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const keepers = new WeakMap();

function keeperOf(store) {
  if (!keepers.has(store)) keepers.set(store, new Keeper(store));
  return keepers.get(store);
}

// A Keeper is a store that does not fail: what the store does not take is kept in memory, as long as the page lives.
class Keeper {
  flights = new Map(); // by name, what this page is sending
  #store;
  #hung = false;
  #aside = new Map(); // by name, what the store did not take
  #removed = new Set(); // keys that the store did not remove

  constructor(store) {
    this.#store = store;
  }

  // Returns the entry of that name if there is another one, else keeps this one.
  async claim(entry, report) {
    const other = (there) => (there?.key === entry.key && there.started === entry.started ? undefined : there);
    if (this.#aside.has(entry.name)) return other(this.#aside.get(entry.name));
    for (const form of [entry, { ...entry, body: undefined }]) { // without its body it may fit
      try {
        let there = await this.#ask('claim', form);
        if (this.#removed.has(there?.key)) {
          await this.#ask('remove', there.name, there.key);
          there = await this.#ask('claim', form);
        }
        return other(there);
      } catch (error) {
        guarded(report, error);
      }
    }
    this.#aside.set(entry.name, entry);
    return undefined;
  }

  async remove(name, key, report) {
    if (this.#aside.get(name)?.key === key) this.#aside.delete(name);
    try {
      await this.#ask('remove', name, key);
    } catch (error) {
      this.#removed.add(key);
      guarded(report, error);
    }
  }

  async get(name, report) {
    return (await this.list(report)).find((entry) => entry.name === name);
  }

  async list(report) {
    const entries = await this.#ask('list').catch((error) => (guarded(report, error), []));
    return [...this.#aside.values(), ...entries.filter(({ name, key }) => !this.#aside.has(name) && !this.#removed.has(key))];
  }

  async #ask(method, ...args) {
    if (this.#hung) throw new Error('ichido: the store did not answer before, and is not asked again');
    const limit = deadline(undefined, STORE_TIMEOUT);
    try {
      return await Promise.race([this.#store[method](...args), aborted(limit.signal)]);
    } finally {
      this.#hung ||= limit.signal.aborted;
      limit.end();
    }
  }
}

export function memoryStore() {
  const entries = new Map();
  return {
    async claim(entry) {
      const there = entries.get(entry.name);
      if (!there) entries.set(entry.name, entry);
      return there;
    },
    async remove(name, key) {
      if (entries.get(name)?.key === key) entries.delete(name);
    },
    async list() {
      return [...entries.values()];
    },
  };
}

export function indexedDBStore(database = 'ichido') {
  let opened;
  const open = () => new Promise((resolve, reject) => {
    const request = indexedDB.open(database, 1);
    request.onupgradeneeded = () => request.result.createObjectStore('operations', { keyPath: 'name' });
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const db = request.result;
      db.onversionchange = db.onclose = () => {
        db.close();
        opened = undefined;
      };
      resolve(db);
    };
  });
  const run = async (mode, work) => {
    opened ??= open();
    const db = await opened.catch((error) => {
      opened = undefined;
      throw error;
    });
    return new Promise((resolve, reject) => {
      // strict: on the disk, not only on its way there, before the first byte is sent.
      const transaction = db.transaction('operations', mode, { durability: 'strict' });
      let result;
      work(transaction.objectStore('operations'), (value) => (result = value));
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(transaction.error);
    });
  };
  const read = (request, then) => (request.onsuccess = () => then(request.result));
  return {
    claim: (entry) => run('readwrite', (operations, result) => read(operations.get(entry.name), (there) => {
      if (there) result(there);
      else operations.put(entry);
    })),
    remove: (name, key) => run('readwrite', (operations) => read(operations.get(name), (there) => {
      if (there?.key === key) operations.delete(name);
    })),
    list: () => run('readonly', (operations, result) => read(operations.getAll(), result)),
  };
}

let shared;
const defaultStore = () => (shared ??= 'indexedDB' in globalThis ? indexedDBStore() : memoryStore());

// Runs work while no other tab runs some of that name. It spares the server duplicates, no more: where there are no locks
// (insecure contexts, sandboxed frames, Node 20) the key alone makes it once.
async function alone(name, signal, queued, work) {
  const locks = globalThis.navigator?.locks;
  if (!locks) return work();
  let begun = false;
  const run = (lock) => lock && ((begun = true), work());
  try {
    const result = await locks.request(`ichido:${name}`, { ifAvailable: true }, run);
    if (begun) return result;
    queued();
    return await locks.request(`ichido:${name}`, { signal }, run);
  } catch (error) {
    if (begun || signal.aborted) throw error;
    return work();
  }
}

// A signal that is aborted with its parent, or after a time.
function deadline(parent, time) {
  const controller = new AbortController();
  const relay = () => controller.abort(parent.reason);
  if (parent?.aborted) relay();
  parent?.addEventListener('abort', relay);
  const timer = setTimeout(() => controller.abort(new DOMException(`no end within ${time} ms`, 'TimeoutError')), Math.min(time, 2 ** 31 - 1));
  return {
    signal: controller.signal,
    until: Date.now() + time,
    end() {
      clearTimeout(timer);
      parent?.removeEventListener('abort', relay);
    },
  };
}

// Rejects when the signal is aborted.
const aborted = (signal) => new Promise((_, reject) => {
  if (signal.aborted) reject(signal.reason);
  signal.addEventListener('abort', () => reject(signal.reason), { once: true });
});

async function sleep(time, signal) {
  const limit = deadline(signal, time);
  await aborted(limit.signal).catch(() => {});
  limit.end();
  signal.throwIfAborted();
}

// Calls a hook of the page. Its errors are not the operation's.
function guarded(hook, event) {
  try {
    hook?.(event);
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
  }
}
