import { expect, test } from 'vitest'
import { RESUME_MS } from '../resumable-protocol.ts'
import { computeSelfEndSeconds, parseExitCode, type SandboxEnding, toExit } from './exit.ts'

const PLAIN: SandboxEnding = {
  stopReason: undefined,
  code: 0,
  hits: { memory: 0, pids: 0 },
  diskFull: false,
  outputBytes: 10,
  outputMaxBytes: 100,
  seconds: 1,
}

test.each<[string, Partial<SandboxEnding>, number | null, string | null]>([
  ['a plain end', {}, 0, null],
  ['a plain failure', { code: 3 }, 3, null],
  ['time is up', { stopReason: 'seconds', code: 137, hits: { memory: 1, pids: 0 } }, null, 'seconds'],
  ['we killed it', { stopReason: 'kill', code: 137, diskFull: true }, null, null],
  ['memory explains a failure', { code: 137, hits: { memory: 1, pids: 4 } }, 137, 'memory'],
  ['memory does not explain a success', { code: 0, hits: { memory: 1, pids: 0 } }, 0, null],
  ['the runtime went with the memory', { code: undefined, hits: { memory: 1, pids: 0 } }, null, 'memory'],
  ['a full disk explains a failure', { code: 1, diskFull: true }, 1, 'disk'],
  ['pids explain a failure', { code: 2, hits: { memory: 0, pids: 9 } }, 2, 'pids'],
  ['cut output is told after a success too', { outputBytes: 101 }, 0, 'output'],
])('%s', (_, seen, code, limit) => {
  expect(toExit({ ...PLAIN, ...seen })).toMatchObject({ code, limit })
})

test('reports what processes lacked, even after a success', () => {
  expect(toExit({ ...PLAIN, hits: { memory: 1, pids: 0 } })).toMatchObject({ limit: null, starvedOf: 'memory' })
  expect(toExit({ ...PLAIN, diskFull: true })).toMatchObject({ limit: null, starvedOf: 'disk' })
  expect(toExit({ ...PLAIN, hits: { memory: 0, pids: 1 } })).toMatchObject({ limit: null, starvedOf: 'pids' })
  expect(toExit(PLAIN)).not.toHaveProperty('starvedOf')
})

test.each<[string | undefined, number | undefined]>([
  ['0', 0],
  ['42', 42],
  ['255', 255],
  ['256', undefined],
  ['-17', undefined],
  ['4294967279', undefined],
  ['1e2', undefined],
  [' 1', undefined],
  ['', undefined],
  [undefined, undefined],
])('the exit code %j is %j', (text, code) => {
  expect(parseExitCode(text)).toBe(code)
})

test('an impossible exit code is not a success', () => {
  expect(toExit({ ...PLAIN, code: parseExitCode('-17') })).toMatchObject({ code: null, limit: null })
})

test('a sandbox that waits for another worker does not end by itself before that worker may come', () => {
  const limits = { memoryMb: 1, cpus: 1, diskMb: 1, pids: 1, shmMb: 1, seconds: 60, outputBytes: 1 }
  const plain = computeSelfEndSeconds({ limits, isAdoptable: false })
  expect(plain).toBeGreaterThan(limits.seconds)
  expect(computeSelfEndSeconds({ limits, isAdoptable: true }) - plain).toBe(RESUME_MS / 1000)
})
