import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inFolder } from '../../src/harbor/folder-source.ts'
import { readTask } from '../../src/harbor/read-task.ts'
import { SandboxUnsupported } from '../../src/sandboxes/sandbox.ts'
import { calibrate } from '../../src/trials/calibrate.ts'
import { openWorkbench } from '../../src/trials/testing/workbench.ts'

const SAMPLES = new URL('../../samples/tasks', import.meta.url).pathname

/** What the engine refuses by name, until it does it. Every other sample must be fit. */
const NOT_YET = new Set([
  'ask-the-sidecar',
  'build-a-ledger-in-steps',
  'count-the-visits',
  'hand-over-the-report',
  'judge-in-a-fresh-copy',
  'steps-with-two-judges',
  'use-the-toolbox',
  'wait-until-healthy',
])

/** Images that install packages take most of a minute each: those are for the long run. */
const installs = (name: string): boolean => {
  const dockerfile = join(SAMPLES, name, 'environment/Dockerfile')
  return (
    readdirSync(join(SAMPLES, name, 'environment')).includes('Dockerfile') &&
    /apt-get/.test(readFileSync(dockerfile, 'utf8'))
  )
}
const names = readdirSync(SAMPLES).filter((name) => process.env.ASSAY_TEST_LONG || !installs(name))

let bench: Awaited<ReturnType<typeof openWorkbench>>
beforeAll(async () => {
  bench = await openWorkbench('bwrap')
}, 600_000)
afterAll(async () => bench[Symbol.asyncDispose]())

async function calibrated(name: string) {
  const folder = join(SAMPLES, name)
  const { task, digest } = await readTask(await inFolder(folder))
  const signal = new AbortController().signal
  return calibrate(bench.provider, {
    task,
    digest,
    folder,
    variables: {},
    signal,
    onPhase: () => {},
    outputFolder: bench.folder,
  })
}

test.each(names.filter((name) => !NOT_YET.has(name)))('%s: the oracle scores 1, nop does not', async (name) => {
  const calibration = await calibrated(name)
  expect(calibration).toMatchObject({ kind: 'fit', mode: 'workspace' })
  console.log(`${name}: ${calibration.attempts.at(-1)?.mode}`)
})

test.each([...NOT_YET])('%s is refused by name, before anything runs', async (name) => {
  await expect(calibrated(name)).rejects.toThrow(SandboxUnsupported)
})
