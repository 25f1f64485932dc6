import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLog } from '../platform/log.ts'
import { SandboxUnavailable } from './sandbox.ts'
import { chooseProvider, describeSelection, findProvider } from './sandboxes.ts'

let dataFolder: string
const lines: string[] = []
const options = () => ({
  dataFolder,
  allowHostBase: false,
  dockerHost: `unix://${dataFolder}/no.sock`,
  log: createLog('info', (line) => lines.push(line)),
})

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-auto-'))
})

afterAll(() => rm(dataFolder, { recursive: true }))

test('selects the first working provider and reports why earlier ones were not selected', async () => {
  const chosen = await chooseProvider(options())
  expect(chosen.name).toBe('local-runc')
  expect(chosen.rejected).toMatchObject([{ name: 'docker', reason: expect.stringContaining('no.sock') }])
  expect(describeSelection(chosen)).toMatch(
    /^Sandboxes are run by local-runc \(runc\)\.\nNot by docker: .*does not answer/,
  )
})

test('lists every provider with its reason if none works', async () => {
  const chosen = chooseProvider(options(), ['docker'])
  await expect(chosen).rejects.toThrow(SandboxUnavailable)
  await expect(chosen).rejects.toThrow(/No sandbox works on this machine\.\ndocker: The Docker engine does not answer/)
})

test('auto selects a provider on first use and logs it', async () => {
  const provider = findProvider('auto', options())
  expect(await provider?.selfTest()).toMatchObject({ isolation: 'runc' })
  expect(lines.map((line) => JSON.parse(line))).toContainEqual(expect.objectContaining({ chosen: 'local-runc' }))
})
