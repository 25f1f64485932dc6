import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { testApp } from '../support/app.ts'
import { hasProgram } from '../support/parts.ts'
import { openReleaseLab } from '../support/releases.ts'
import { READS_A_RELEASE } from './reads-a-release.ts'

const run = promisify(execFile)

test.skipIf(!hasProgram('curl'))('the commands in docs/releases.md work once a release is published', async () => {
  await using app = await testApp()
  const lab = await openReleaseLab(app)
  const commands = READS_A_RELEASE.replaceAll('lab/demo', `${lab.place.owner}/${lab.place.name}`).split('\n')
  const read = async (command: string) => {
    const { stdout } = await run('sh', ['-c', command], { env: { ...process.env, ASSAY_URL: app.url } })
    return JSON.parse(stdout)
  }
  const [lines = '', history = ''] = commands
  await expect(read(lines)).rejects.toThrow('Command failed')
  await lab.ran({ id: 'lab/large|mini|low', cells: 'ppppff' })
  expect((await lab.publishAll()).status).toBe(201)
  expect((await read(lines)).lines).toHaveLength(1)
  expect((await read(history)).releases).toHaveLength(1)
})
