import type { Store } from './ichido.js';

/** Keeps operations in sessionStorage, over reloads of one tab. */
export function webStore(storage: Storage, prefix?: string): Store;
