import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { harnesses } from '../src/harnesses/harnesses.ts'
import { assay, scratchFolder } from '../test/support/assay-command.ts'

const folder = scratchFolder()
afterAll(folder.remove)
const data = join(folder.path, 'data')
/** Nobody is there, and nothing is remembered. */
const OFFLINE = {
  npm_config_registry: 'http://127.0.0.1:1/',
  npm_config_cache: join(folder.path, 'npm'),
  npm_config_fetch_retries: '0',
}

test('lists all harnesses with version and installation state', async () => {
  const { code, out } = await assay(['harnesses', 'list', '--data', data])
  expect(code).toBe(0)
  for (const { id, version } of harnesses)
    expect(out).toMatch(new RegExp(`^${id} .*${version.replaceAll('.', '\\.')}`, 'm'))
  const json = await assay(['harnesses', 'list', '--data', data, '--json'])
  const installed = harnesses.map(({ bundle }) => (bundle ? false : null))
  expect(JSON.parse(json.out).map((each: { installed: boolean | null }) => each.installed)).toEqual(installed)
})

test('built-in harnesses need no installation', async () => {
  expect(await assay(['harnesses', 'install', 'nop', '--data', data])).toEqual({
    code: 0,
    out: '',
    err: 'nop needs no installation.\n',
  })
})

test('reports an unknown harness as wrong usage, and an unreachable registry in one sentence', async () => {
  const unknown = await assay(['harnesses', 'install', 'nobody', '--data', data])
  expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining('There is no harness nobody. Known: oracle') })
  const offline = await assay(['harnesses', 'install', 'pi', '--data', data], { env: OFFLINE })
  expect(offline).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringMatching(/^error: npm could not fetch .*ECONNREFUSED/),
  })
})
