/**
 * Makes an operation: what the user does once, such as submitting an order. Make it in the event listener, once per action,
 * and not once per page. Throws a TypeError if an option is wrong.
 */
export function createOperation(options?: OperationOptions): Operation;

export interface OperationOptions extends StoreOptions {
  /**
   * What the operation is for, such as "order" or "order:" + user. An operation with a name is kept until its outcome is
   * known: the same request under the same name, after a reload, in another tab, or on a second click, is the same
   * operation. Where several users share a browser, the name has to tell them apart. Default: none, it is known to this
   * object only.
   */
  name?: string;
  /** A key that was made before, or follows from what is done: 1 to 255 printable ASCII characters. Default: a random UUID. */
  key?: string;
  /** The field that carries the key. Default: Idempotency-Key. */
  header?: string;
  /** Whether the key is sent in double quotes, as a String of RFC 9651. Most APIs but ichido's want false. Default: true. */
  quoted?: boolean;
  /** How many attempts there are at most, the first one included. Default: 6. */
  attempts?: number;
  /**
   * In milliseconds: before the n-th retry is a random wait of up to baseDelay·2ⁿ⁻¹ and maxDelay. A Retry-After up to
   * maxDelay is waited for instead, a longer one is the end. Defaults: 200 and 30 000.
   */
  baseDelay?: number;
  maxDelay?: number;
  /** Milliseconds for an attempt, to the end of the answer's body. Default: 30 000. */
  attemptTimeout?: number;
  /** Milliseconds for all attempts, the waits between them and those for the network or another tab. Default: 120 000. */
  totalTimeout?: number;
  /** Milliseconds for which the server surely remembers a key; later, or where the clock was set back, it is not sent any more. Default: 24 hours. */
  retention?: number;
  /**
   * How many bytes of body are kept at most. What is longer has its key kept only: the same request goes on when the user
   * submits it again, and resume() cannot send it. 0 keeps no bodies. Default: 1 MiB.
   */
  maxKeptBody?: number;
  /** What sends; for wrappers that add a fresh token to each attempt. Default: the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /**
   * What an answer of 400 and above, or after a redirection, means that is no replay, for services that speak neither ichido's problems nor the
   * draft's; undefined leaves it to the rules. problem is its problem document (RFC 9457), if it is one.
   * As in: (answer) => answer.status === 409 ? 'in progress' : undefined
   */
  judge?: (answer: Response, problem?: Record<string, unknown>) => Verdict | undefined;
  /** Is told what goes on, so that a page can show it. */
  observe?: (event: OperationEvent) => void;
}

export interface StoreOptions {
  /** Where operations with a name are kept. Default: IndexedDB, and in Node memory. */
  store?: Store;
  /** Is told why the store does not work. What it does not take is kept in memory; the request is sent in any case. */
  onstorage?: (error: unknown) => void;
}

export interface Operation {
  readonly name: string | undefined;
  /** Its key. Of an operation that was begun before, the key is found by fetch() or resume(). */
  readonly key: string;
  /**
   * After fetch() or resume(): "done", it took effect; "not done", it certainly did not, and the name is free; "unknown", it
   * may have, and the operation is kept. undefined before.
   */
  readonly outcome: Outcome | undefined;
  /** How many attempts the last call made. */
  readonly attempts: number;
  /**
   * Sends a request until its outcome is known. Takes what the global fetch takes, but for GET, HEAD and the mode no-cors. Give
   * a FormData as init.body, not within a Request, whose bytes differ each time.
   *
   * Resolves to the answer to the last attempt, whatever its status, once its body has arrived whole. Rejects with a
   * NotDoneError, UnknownError or MismatchError, or a TypeError if the request cannot be sent as it is. After "unknown" and
   * "not done" it can be called again, with the same request.
   */
  fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response>;
  /**
   * Goes on with what is kept under the name. Of the fields of the request only Accept, Accept-Language and Content-Type were
   * kept: give others, such as Authorization, in init.headers. Ends as fetch() does; undefined if nothing is kept.
   */
  resume(init?: RequestInit): Promise<Response | undefined>;
  /**
   * Gives up what is kept under the name; the next fetch() is a new operation. If the old one is of unknown outcome and took
   * effect, the new one does it again: find out first.
   */
  discard(): Promise<void>;
}

export type Outcome = 'done' | 'not done' | 'unknown';

/** What one attempt means, in the words of the Go client. */
export type Verdict =
  | 'succeeded' | 'refused' | 'failed' | 'mismatch' | 'try again' | 'in progress' | 'uncertain' | 'unresolved';

export interface OperationEvent {
  /**
   * "queued": another tab is sending it, this one waits; "offline": there is no network, it goes on when there is; "sending": an
   * attempt begins; "waiting": it failed, and there will be another one.
   */
  state: 'queued' | 'offline' | 'sending' | 'waiting';
  name: string | undefined;
  /** Does not belong into logs. */
  key: string;
  /** Counts the attempts, from 1; how many there were, for "queued" and "offline". */
  attempt: number;
  /** For "waiting": the milliseconds until the next attempt, and the status or the error of this one. */
  wait?: number;
  status?: number;
  error?: unknown;
}

/** What the errors have in common. Their cause is what the last attempt failed with, or the reason of the AbortSignal. */
export class OperationError extends Error {
  /** The key to go on with. It is not in the message. */
  readonly key: string;
  /** The name of the operation. */
  readonly operation: string | undefined;
  readonly attempts: number;
}
/**
 * The operation certainly did not take effect. That nothing could be reached tells so in Node only, and with the redirect
 * "manual" or "error" only: else it may be the result, to which a redirection led, that cannot be reached.
 */
export class NotDoneError extends OperationError {}
/**
 * It is not known whether the operation took effect. It is to go on under its key, by fetch() with the same request or by
 * resume(); a new key may do it twice.
 */
export class UnknownError extends OperationError {}
/** Nothing was sent: what became of another request under the same name, whose key this has, is not known yet. */
export class MismatchError extends OperationError {}

/** The kept operations, as at the load of a page. */
export function pending(options?: StoreOptions): Promise<PendingOperation[]>;

export interface PendingOperation {
  name: string;
  key: string;
  /** When it was first to be sent, as of Date.now(). */
  started: number;
  method: string;
  url: string;
  /** False if its body was too large to be kept. */
  resumable: boolean;
}

/** Where operations are kept. A call that takes longer than 3 s has failed. */
export interface Store {
  /** Atomically, for all tabs that share the store: keeps the entry if there is none of its name, else returns that one. */
  claim(entry: StoredOperation): Promise<StoredOperation | undefined>;
  /** Removes the entry of that name if it has that key. */
  remove(name: string, key: string): Promise<void>;
  list(): Promise<StoredOperation[]>;
}

export interface StoredOperation {
  name: string;
  key: string;
  started: number;
  digest: string;
  method: string;
  url: string;
  credentials: RequestCredentials;
  headers: [string, string][];
  body?: ArrayBuffer;
}

/** Keeps operations over reloads, for all tabs of the origin. */
export function indexedDBStore(database?: string): Store;
/** Keeps operations as long as the page or the process lives. */
export function memoryStore(): Store;
