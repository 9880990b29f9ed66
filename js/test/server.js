// A server that answers each sending as a test says, and the operations that the tests make.
import { createServer } from 'node:http';
import { once } from 'node:events';

/** Starts a server whose n-th sending is answered by the n-th of answers, later ones by the last. */
export async function serve(t, ...answers) {
  const sendings = [];
  const server = createServer(async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const sending = { method: req.method, headers: req.headers, key: req.headers['idempotency-key'], body: Buffer.concat(chunks), at: performance.now() };
    sendings.push(sending);
    const answer = answers[Math.min(sendings.length, answers.length) - 1];
    await answer(res, sending);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/orders`, sendings, server };
}

export const answer = (status, headers = {}, body = '') => (res) => res.writeHead(status, headers).end(body);
export const created = answer(201, { 'Content-Type': 'application/json' }, '{"id":1}');
export const problem = (status, members, headers = {}) =>
  answer(status, { 'Content-Type': 'application/problem+json', ...headers }, JSON.stringify(members));

/** Ends the connection without an answer. */
export const cut = (res) => res.socket.destroy();
/** Ends the connection in the middle of the answer's body. */
export const half = (res) => {
  res.writeHead(201, { 'Content-Length': 8 });
  res.write('{"id', () => res.socket.destroy());
};
export const silence = () => {};

/** Settings with which a test does not wait. */
export const quick = { baseDelay: 1, maxDelay: 2000 };

export const post = (body = '{"item":"chair"}', more = {}) =>
  ({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body, ...more });
