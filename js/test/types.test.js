import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import * as ichido from '../ichido.js';
import * as webstore from '../webstore.js';

// Whether the declarations are TypeScript is not checked here, only that they are of what there is.
for (const [file, module] of [['ichido', ichido], ['webstore', webstore]]) {
  test(`${file}.d.ts declares what ${file}.js exports`, () => {
    const declared = readFileSync(new URL(`../${file}.d.ts`, import.meta.url), 'utf8').matchAll(/^export (?:function|class|const) (\w+)/gm);
    assert.deepEqual([...declared].map(([, name]) => name).sort(), Object.keys(module).sort());
  });
}

test('an operation has what its declaration has', () => {
  const [, body] = /^export interface Operation \{\n(.*?)^\}/ms.exec(readFileSync(new URL('../ichido.d.ts', import.meta.url), 'utf8'));
  const declared = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name);
  const op = ichido.createOperation();
  const there = [...Object.keys(op), ...Object.getOwnPropertyNames(Object.getPrototypeOf(op)).filter((name) => name !== 'constructor')];
  assert.deepEqual(declared.sort(), there.sort());
});
