// Prints the events of Node's test runner that node_test.go reads, one JSON object a line.
export default async function* reporter(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const error = data.details?.error;
    const cause = error?.cause ?? error;
    yield JSON.stringify({
      pass: type === 'test:pass', name: data.name, nesting: data.nesting, file: data.file, line: data.line,
      skipped: data.skip !== undefined || data.todo !== undefined,
      error: error && String(cause?.stack ?? cause?.message ?? cause),
    }) + '\n';
  }
}
