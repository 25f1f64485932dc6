import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolderSource } from '../../src/harbor/folder-source.ts'
import { readTask } from '../../src/harbor/read-task.ts'
import { calibrate, chooseMode } from '../../src/trials/calibrate.ts'
import { inSandboxes } from '../support/trials/in-sandboxes.ts'

const SAMPLES = new URL('../../samples/tasks', import.meta.url).pathname

/** Images that install packages take most of a minute each: those are for the long run. */
const installs = (name: string): boolean => {
  const dockerfile = join(SAMPLES, name, 'environment/Dockerfile')
  return (
    readdirSync(join(SAMPLES, name, 'environment')).includes('Dockerfile') &&
    /apt-get/.test(readFileSync(dockerfile, 'utf8'))
  )
}
const names = readdirSync(SAMPLES).filter((name) => process.env.ASSAY_TEST_LONG || !installs(name))

inSandboxes(({ runner, share }) => {
  async function calibrated(name: string) {
    const folder = join(SAMPLES, name)
    const { task, digest } = await readTask(await openFolderSource(folder))
    const signal = new AbortController().signal
    return (process.env.ASSAY_TEST_LONG ? calibrate : chooseMode)(runner.provider, {
      task,
      digest,
      folder,
      variables: {},
      signal,
      onPhase: () => {},
      outputFolder: runner.folder,
    })
  }

  test.each(share(names))('%s: the oracle scores 1, nop does not', async (name) => {
    const calibration = await calibrated(name)
    expect(calibration).toMatchObject({ kind: 'fit', mode: name === 'sum-behind-a-wall' ? 'grader' : 'workspace' })
  })
})
