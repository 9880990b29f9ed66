// Keeps operations in sessionStorage: over reloads of one tab, and for no other tab. localStorage works too, but two tabs
// can then begin one operation at the same moment under two keys, which IndexedDB excludes.

export function webStore(storage, prefix = 'ichido:') {
  const get = (name) => {
    const text = storage.getItem(prefix + name);
    if (text === null) return undefined;
    const entry = JSON.parse(text);
    return entry.body === undefined ? entry : { ...entry, body: Uint8Array.from(atob(entry.body), (c) => c.charCodeAt(0)).buffer };
  };
  return {
    async claim(entry) {
      const there = get(entry.name);
      if (there) return there;
      const body = entry.body && btoa(Array.from(new Uint8Array(entry.body), (n) => String.fromCharCode(n)).join(''));
      storage.setItem(prefix + entry.name, JSON.stringify({ ...entry, body }));
      return undefined;
    },
    async remove(name, key) {
      if (get(name)?.key === key) storage.removeItem(prefix + name);
    },
    async list() {
      const names = Array.from({ length: storage.length }, (_, i) => storage.key(i));
      return names.filter((name) => name.startsWith(prefix)).map((name) => get(name.slice(prefix.length)));
    },
  };
}
