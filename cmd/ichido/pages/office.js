// The script of the office's page. What the user does once is an operation of ichido.js; what has changed by it is read from
// the server's page again, so that things are rendered in one place.

import { createOperation, pending, MismatchError, NotDoneError } from './ichido.js';

const $ = (id) => document.getElementById(id);
const { lang } = document.documentElement;
const words = JSON.parse($('words').textContent);
const say = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (_, place) => values[place]);
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

function element(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

// Says how something stands: kind is "good", "bad" or "wait".
function tell(out, kind, text, detail, ...acts) {
  const all = [element('p', {}, text)];
  if (detail) all.push(element('p', { className: 'detail' }, detail));
  if (acts.length) all.push(element('div', { className: 'acts' }, ...acts));
  out.dataset.kind = kind;
  out.replaceChildren(...all);
}

// What this tab keeps, where it may keep something.
function kept(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}
function keep(name, value) {
  try {
    value === null ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, value);
  } catch {}
}

let token = kept('token');

function fields() {
  const headers = { 'Accept-Language': lang, 'Content-Type': 'application/json' };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  return headers;
}

const post = (body) => ({ method: 'POST', headers: fields(), body });

async function get(path, alsoStatus) {
  const response = await fetch(path, { headers: fields(), cache: 'no-store' });
  if (!response.ok && response.status !== alsoStatus) throw new Error(`${path}: ${response.status}`);
  return response;
}

const read = async (path) => (await get(path)).json();

// Reads the page again.
async function load(query) {
  const response = await get(`/?${query}`, 401);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  localTimes(page);
  return page;
}

function localTimes(root) {
  const style = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' };
  for (const time of root.querySelectorAll('time')) time.textContent = new Date(time.dateTime).toLocaleString(lang, style);
}

// Shows what has changed. If that fails, what is shown stays.
async function refresh() {
  const query = new URLSearchParams({ lang, reserved_by: $('name').value });
  history.replaceState(history.state, '', `?${query}`);
  const fresh = await load(query).catch(console.warn);
  for (const live of fresh?.querySelectorAll('[data-live]') ?? []) $(live.id)?.replaceWith(live);
}

async function more(link) {
  const fresh = await load(new URL(link.href).searchParams);
  const items = [...fresh.querySelectorAll('#bookings li')];
  $('bookings').querySelector('ol').append(...items);
  link.replaceWith(fresh.getElementById('more') ?? '');
  items[0]?.setAttribute('tabindex', '-1');
  items[0]?.focus();
}

// What the user does is kept under a name until its outcome is known, for each principal.
const nameOf = (kind) => `${kind}:${$('main').dataset.principal ?? ''}`;

// The kinds of operations: where they tell how they stand, and what comes of them.
const kinds = {
  booking: { out: 'book-status', noAnswer: 'noAnswer', settings: { attempts: 12 }, done: booked },
  order: { out: 'order-status', noAnswer: 'down', settings: { attempts: 1000, maxDelay: 15_000, totalTimeout: 3600_000 }, done: ordered },
};

// Runs an operation and tells how it goes. start(op) sends it, or goes on with what was sent before.
async function run(kind, start) {
  const { out: id, noAnswer, settings, done } = kinds[kind];
  const out = $(id);
  let problem; // of the last answer
  const op = createOperation({
    ...settings,
    name: nameOf(kind),
    judge: (_, p) => void (problem = p),
    observe({ state, attempt, status }) {
      const n = attempt + 1;
      if (state === 'waiting' && status === 409) tell(out, 'wait', say('busy', { n }));
      else if (state === 'waiting') tell(out, 'wait', say(noAnswer, { n }), problem?.detail, ...(problem?.code === 'payment-unavailable' ? [say('fakepay')] : []));
      else if (state !== 'sending' || attempt === 1) tell(out, 'wait', say(state));
      if (state === 'sending') problem = undefined;
    },
  });
  const failed = (text, detail, ...acts) => {
    submitted.delete(kind);
    tell(out, 'bad', text, detail, ...acts);
  };
  const goOnButton = (word) => button(word, out, () => run(kind, goOn));
  try {
    const response = await start(op);
    if (!response) return out.replaceChildren();
    if (response.ok) {
      Object.assign(submitted.get(kind) ?? {}, { at: performance.now() });
      const replayed = response.headers.get('Idempotent-Replayed') === 'true';
      return await done(out, await response.json(), replayed ? say('replayed') : '');
    }
    const p = await response.json().catch(() => ({ title: say('badAnswer', { status: response.status }) }));
    const link = p.type?.startsWith('/') ? [element('a', { href: `${p.type}?lang=${lang}` }, say('about'))] : [];
    const acts = op.outcome === 'unknown' ? [goOnButton('again'), forgetButton(kind)] : [];
    failed(p.title, `${p.detail ?? ''} ${acts.length ? say('unknown') : ''}`, ...acts, ...link);
  } catch (error) {
    if (error instanceof MismatchError) failed(say('mismatch'), '', goOnButton('findOut'), forgetButton(kind));
    else if (error instanceof NotDoneError) failed(say('notDone'), '', button('again', out, () => run(kind, start)));
    else failed(say('unknown'), '', goOnButton('again'), forgetButton(kind));
    console.warn(error);
  }
  if (document.activeElement !== document.body) out.focus(); // not when nobody has touched the page
}

const goOn = (op) => op.resume({ headers: fields() });

// A button within out, which makes way for what comes of it.
const button = (word, out, action) => element('button', { type: 'button', className: 'quiet', onclick() {
  out.focus();
  action();
} }, say(word));

function forgetButton(kind) {
  const out = $(kinds[kind].out);
  return button('forget', out, async () => {
    await createOperation({ name: nameOf(kind) }).discard();
    tell(out, 'bad', say('forgotten'));
    await refresh();
  });
}

// What comes within a second of another event of its form, or of its answer, is the second half of a double click, or Enter
// held down: the same operation. A fast server has answered before it. What was not done may be sent again at once.
const submitted = new Map();
function isRepeated(kind, body) {
  const before = submitted.get(kind);
  const now = performance.now();
  submitted.set(kind, { body, at: now });
  return before?.body === body && now - before.at < 1000;
}

function book(body) {
  if (!isRepeated('booking', body)) run('booking', (op) => op.fetch('/reservations', post(body)));
}

const nameOfItem = (code) => document.querySelector(`[name=item_code][value="${CSS.escape(code)}"]`)?.parentElement.querySelector('.name').textContent ?? code;

async function booked(out, { id, item_code, quantity }, note) {
  tell(out, 'good', say('booked', { item: nameOfItem(item_code), n: quantity, id }), note);
  await refresh();
}

// Orders. Their answer comes at their end; until then the list tells how far they have got.

function showSteps(status) {
  const steps = [...$('steps').children];
  const n = steps.findIndex((step) => step.dataset.step === status);
  steps.forEach((step, i) => {
    step.toggleAttribute('data-done', i <= n);
    if (i === n + 1) step.setAttribute('aria-current', 'step');
    else step.removeAttribute('aria-current');
  });
}

async function ordered(out, { id, amount, status }, note) {
  showSteps(status);
  tell(out, 'good', say('confirmed', { id, amount: amount.toLocaleString(lang) }), note);
  await refresh();
}

// Runs an order, and shows how far it has got: mine is the newest of its kind that is not at its end.
async function runOrder(start, mine) {
  showSteps('');
  let going = true;
  const watch = async () => {
    while (going) {
      const { orders } = await read('/orders?limit=20').catch(() => ({ orders: [] }));
      const order = orders.find((o) => /^(reserved|charged)$/.test(o.status) && Object.entries(mine).every(([name, value]) => o[name] === value));
      if (order && going) showSteps(order.status);
      await sleep(500);
    }
  };
  if (mine) watch();
  await run('order', start);
  going = false;
}

function order(body) {
  if (isRepeated('order', body)) return;
  const { card, ...mine } = JSON.parse(body);
  keep('order', JSON.stringify(mine));
  runOrder((op) => op.fetch('/orders', post(body)), mine);
}

// The bad network. It goes wrong for the first request, and then works.

function over(network, log, stragglers) {
  let n = 0;
  const lost = () => {
    throw new TypeError('the network lost it');
  };
  return async (url, init) => {
    log(++n === 1 ? 'tSent' : 'tAgain');
    let response;
    if (n > 1) response = await fetch(url, init);
    else if (network === 'Request') {
      await sleep(400);
      log('tRequestLost');
      lost();
    } else if (network === 'Answer') {
      await (await fetch(url, init)).arrayBuffer();
      log('tAnswerLost');
      lost();
    } else if (network === 'Delay') {
      log('tHeld');
      stragglers.push(sleep(2000).then(() => {
        log('tArrives');
        return fetch(url, { ...init, signal: undefined });
      }));
      await new Promise((resolve) => init.signal.addEventListener('abort', resolve, { once: true }));
      log('tGaveUp');
      lost();
    } else if (network === 'Twice') {
      log('tDouble');
      const both = [fetch(url, init), fetch(url, init)];
      stragglers.push(both[1]);
      response = await both[0];
    } else {
      const cut = new AbortController();
      const timer = setTimeout(() => cut.abort(), 2000);
      await fetch(url, { ...init, signal: cut.signal }).catch(() => {});
      clearTimeout(timer);
      cut.abort();
      log('tKilled');
      lost();
    }
    log(response.headers.get('Idempotent-Replayed') === 'true' ? 'tReplayed' : 'tStatus', { status: response.status });
    return response;
  };
}

// Two clients that try again. patience is how long they wait for the first answer, in milliseconds.
const withKey = (send, path, init, patience) =>
  createOperation({ fetch: send, attemptTimeout: patience, baseDelay: 400 }).fetch(path, init);

async function withoutKey(send, path, init, patience) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send(path, { ...init, signal: attempt === 1 ? AbortSignal.timeout(patience) : undefined });
    } catch (error) {
      if (attempt === 5) throw error;
      await sleep(200);
    }
  }
}

async function side(id, network, path, client) {
  const list = $(id);
  const count = $(`${id}-count`);
  const by = `demo-${Math.random().toString(36).slice(2)}`;
  const start = performance.now();
  const log = (word, values) => list.append(element('li', {},
    element('span', {}, `${((performance.now() - start) / 1000).toFixed(2)} s`), say(word, values)));
  list.replaceChildren();
  count.textContent = '…';
  delete count.dataset.kind;
  const stragglers = [];
  const patience = network === 'Delay' ? 1000 : 30_000;
  await client(over(network, log, stragglers), path, post(JSON.stringify({ item_code: 'DEMO', quantity: 1, reserved_by: by })), patience);
  await Promise.allSettled(stragglers);
  const ids = (await read(`${path}?reserved_by=${by}`)).reservations.map(({ id }) => say('no', { id }));
  log('tNumbers', { ids: ids.reverse().join(', ') });
  count.textContent = ids.length;
  count.dataset.kind = ids.length === 1 ? 'good' : 'bad';
  return ids.length;
}

let experimenting = false;
async function experiment(network) {
  if (experimenting) return;
  experimenting = true;
  const out = $('try-status');
  tell(out, 'wait', say('running'));
  try {
    const [without, with_] = await Promise.all([
      side('without', network, '/demo/unprotected', withoutKey),
      side('with', network, '/reservations', withKey),
    ]);
    tell(out, without === with_ ? 'wait' : 'good', say('counts', { without, with: with_ }) + say(`says${network}`));
  } catch (error) {
    tell(out, 'bad', say('failed'));
    console.warn(error);
  }
  experimenting = false;
}

async function enter(value) {
  token = value;
  try {
    const fresh = await load(location.search.slice(1) || `lang=${lang}`);
    $('main').replaceWith(fresh.getElementById('main'));
    if ($('token')) token = null;
    else resume();
    keep('token', token);
  } catch (error) {
    tell($('token-status'), 'bad', say('notDone'));
    console.warn(error);
  }
  ($('token-status') ?? document.querySelector('[name=item_code]'))?.focus();
}

// Goes on with what this browser has sent, and does not know the outcome of.
async function resume() {
  const names = (await pending()).map(({ name }) => name);
  if (names.includes(nameOf('booking'))) run('booking', goOn);
  if (names.includes(nameOf('order'))) runOrder(goOn, JSON.parse(kept('order')));
}

document.addEventListener('submit', (event) => {
  const form = event.target;
  const data = Object.fromEntries(new FormData(form));
  if (data.quantity) data.quantity = Number(data.quantity);
  const actions = {
    book() {
      delete data.key; // of the form without a script
      book(JSON.stringify(data));
    },
    order: () => order(JSON.stringify(data)),
    try: () => experiment(data.network),
    token: () => enter(data.token),
  };
  if (!actions[form.id]) return;
  event.preventDefault();
  actions[form.id]();
});

document.addEventListener('click', (event) => {
  const { id } = event.target;
  if (id === 'more') {
    event.preventDefault();
    more(event.target).catch(console.warn);
  } else if (id === 'sign-out') {
    keep('token', null);
    location.reload();
  } else if (id === 'language' && $('book')) {
    // The other language begins where this one is left.
    const url = new URL(event.target.href);
    for (const field of ['item_code', 'quantity', 'reserved_by']) url.searchParams.set(field, $('book').elements[field].value);
    event.target.href = url;
    keep('scroll', scrollY);
  }
});

document.addEventListener('change', (event) => {
  if (event.target.id === 'name') refresh();
});

// A page that comes back by the back button is as it was.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted && $('book')) refresh();
});

if (kept('scroll') !== null) scrollTo(0, Number(kept('scroll')));
keep('scroll', null);
localTimes(document);
if (!$('token')) resume();
else if (token !== null) enter(token);
document.documentElement.dataset.ready = '';
