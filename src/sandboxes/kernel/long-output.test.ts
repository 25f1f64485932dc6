import { expect, test } from 'vitest'
import { startNamespaceProcess } from './namespace-process.ts'
import { runLogged } from './run-program.ts'

const MEGABYTE = 1024 * 1024
const FLOOD = `head -c ${64 * MEGABYTE} /dev/zero | tr '\\0' x`

/** Maximum output that is buffered. */
const KEPT = 2 * MEGABYTE

test('reads an endless line to its end and stores only a small part', async () => {
  const lines: string[] = []
  const options = { signal: new AbortController().signal, onLog: (line: string) => void lines.push(line) }
  await runLogged('sh', ['-c', `echo first >&2; ${FLOOD} >&2; printf '\\nlast\\r\\nwords' >&2`], options)
  expect(lines.map(({ length }) => length).every((length) => length <= KEPT)).toBe(true)
  expect([lines[0], ...lines.slice(-2)]).toEqual(['first', 'last', 'words'])
})

test.skipIf(process.getuid?.() !== 0)('reads an endless line of a namespace process', async () => {
  const namespaceProcess = await startNamespaceProcess({ rootless: false, copyMountsOf: undefined, cwd: '/' })
  try {
    const { code, text } = await namespaceProcess.run(`${FLOOD}; echo; echo last words; sh -c 'exit 3'`)
    expect([code, text.slice(-11), text.length < KEPT]).toEqual([3, 'last words\n', true])
  } finally {
    await namespaceProcess.end()
  }
})
