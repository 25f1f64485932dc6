import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'
import { type ImageSource, ImageTimeout, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { buildEnvironment } from './build-environment.ts'

const RECIPE: EnvRecipe = {
  base: 'debian:trixie-slim',
  aptPackages: [],
  env: {},
  toolchain: [],
  manifests: [],
  setup: [],
  build: [],
  runner: 'unittest',
}
const TIMEOUT_SEC = 60
const FAILED = new SandboxUnavailable('It ended with exit code 1.')
const TIMED_OUT = new ImageTimeout(`The image was not ready after ${TIMEOUT_SEC} seconds.`)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-build-timeout-'))
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(folder, { recursive: true, force: true })
})

/** Builds the environment on a provider whose builds take 50 seconds each and end as given, in this order. */
async function build(ends: readonly (Error | undefined)[], log: readonly string[] = []) {
  const remaining = [...ends]
  const provider: Partial<SandboxProvider> = {
    selfTest: async () => ({}) as Awaited<ReturnType<SandboxProvider['selfTest']>>,
    async prepare({ kind }: ImageSource, { onLog }) {
      const end = kind === 'dockerfile' ? remaining.shift() : undefined
      if (kind === 'dockerfile') vi.advanceTimersByTime(50_000)
      for (const line of log) onLog(line)
      if (end) throw end
      return { digest: 'sha256:0' } as Awaited<ReturnType<SandboxProvider['prepare']>>
    },
  }
  const signal = new AbortController().signal
  const input = { folder: join(folder, 'environment'), recipe: RECIPE, timeoutSec: TIMEOUT_SEC }
  const result = await buildEnvironment(provider as SandboxProvider, input, signal)
  return { result, unused: remaining.length }
}

test('a layer that fails is no timeout, even if all layers together took longer than the timeout of one', async () => {
  const { result, unused } = await build([undefined, FAILED, undefined, FAILED])
  expect(result).toMatchObject({ kind: 'rejected', detail: expect.stringContaining('exit code 1') })
  expect(result).not.toHaveProperty('isLoadSensitive')
  expect(unused).toBe(0)
})

test('a timeout may be due to the load of the host, and is not retried', async () => {
  const { result, unused } = await build([undefined, TIMED_OUT, undefined])
  expect(result).toMatchObject({ kind: 'rejected', isLoadSensitive: true })
  expect(unused).toBe(1)
})

test('a timeout of the retry may be due to the load of the host too', async () => {
  const { result } = await build([FAILED, undefined, TIMED_OUT])
  expect(result).toMatchObject({ kind: 'rejected', isLoadSensitive: true })
})

test('a rejection names the timeout, however long the log is', async () => {
  const log = Array.from({ length: 30 }, (_, line) => `${line} ${'x'.repeat(900)}`)
  const { result } = await build([undefined, TIMED_OUT], log)
  expect(result).toMatchObject({ detail: expect.stringMatching(/^The image was not ready after 60 seconds\..*x$/s) })
})
