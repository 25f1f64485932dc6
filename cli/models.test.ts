import { afterAll, beforeAll, expect, test } from 'vitest'
import { listModels } from '../src/catalog/schema.ts'
import { newKey } from '../src/workspaces/key.ts'
import { assay, type CommandResult, scratchFolder } from '../test/support/assay-command.ts'
import { type ServiceProcess, startService } from '../test/support/service.ts'

const key = newKey()
const folder = scratchFolder()
let service: ServiceProcess

beforeAll(async () => {
  service = await startService('serve', ['--data', folder.path, '--port', '0'], { ASSAY_BOOTSTRAP_KEY: key })
})
afterAll(async () => {
  await service.kill('SIGTERM')
  folder.remove()
})

const run = (args: string[]): Promise<CommandResult> =>
  assay(['models', ...args], { env: { ASSAY_URL: service.url, ASSAY_KEY: key } })
const add = (...args: string[]) =>
  run([
    'add',
    ...args,
    '--name',
    'house-v2',
    '--protocol',
    'openai-chat',
    '--base-url',
    'https://models.example.com/v1',
  ])

test('a model is added, shown, repriced and removed', async () => {
  const flags = [
    '--levels',
    'low,high',
    '--default-level',
    'high',
    '--input',
    '0.5',
    '--output',
    '2',
    '--cache-read',
    '0',
  ]
  expect(await add('custom/house', ...flags)).toMatchObject({
    code: 0,
    out: 'custom/house\n',
    err: 'Added house-v2.\nIts key: assay credentials add model custom/house --name key\n',
  })
  expect((await add('custom/house', ...flags)).err).toBe('house-v2 already exists, unchanged.\n')
  expect((await run(['list'])).out).toMatch(/\ncustom\/house +house-v2 +openai-chat +low,high +0\.5 +2 +\d/)
  expect(await add('custom/house', ...flags, '--input', '0.25')).toMatchObject({ code: 0 })
  const { models } = listModels.answers[200].parse(JSON.parse((await run(['list', '--json'])).out))
  expect(models).toMatchObject([{ defaultReasoningLevel: 'high', prices: { input: 0.25, output: 2, cacheRead: 0 } }])
  expect(await run(['remove', 'custom/house'])).toMatchObject({ code: 0, err: 'Removed custom/house.\n' })
  expect((await run(['remove', 'custom/house'])).code).not.toBe(0)
})

test.each([
  ['custom/x', '--levels', 'deep', '--input', '1', '--output', '1'],
  ['custom/x', '--input', 'much', '--output', '1'],
  ['custom/x', '--input', '1', '--output', '-1'],
])('reports wrong usage before any request: %s %s %s', async (...args) => {
  expect(await add(...args)).toMatchObject({ code: 2, out: '' })
})

test('stores requests and answers if an admin enables it', async () => {
  expect((await run(['bodies'])).out).toBe('off\n')
  expect(await run(['bodies', 'on'])).toMatchObject({ code: 0, out: 'on\n' })
  expect(JSON.parse((await run(['bodies', '--json'])).out)).toEqual({ recordBodies: true })
  expect(await run(['bodies', 'maybe'])).toMatchObject({ code: 2 })
})

test('only custom models can be removed', async () => {
  expect(await run(['remove', 'reference'])).toMatchObject({ code: 2 })
})

test('a model server on this machine takes one short command, and is called without a key', async () => {
  const added = await run(['add', 'custom/qwen3', '--base-url', 'http://127.0.0.1:11434/v1'])
  expect(added).toMatchObject({ code: 0, out: 'custom/qwen3\n' })
  expect(added.err).toContain('It is called without a key.')
  const { models } = listModels.answers[200].parse(JSON.parse((await run(['list', '--json'])).out))
  expect(models[0]).toMatchObject({ name: 'qwen3', protocol: 'openai-chat', prices: { input: 0, output: 0 } })
  const listed = await assay(['credentials', 'list'], { env: { ASSAY_URL: service.url, ASSAY_KEY: key } })
  expect(listed.out).toMatch(/model +custom\/qwen3 +No key +stored/)
})

test('the key of a model comes from a variable and is stored as a credential', async () => {
  const flags = ['--base-url', 'http://127.0.0.1:8000/v1', '--key-env', 'VLLM_KEY']
  expect((await run(['add', 'custom/vllm', ...flags])).err).toContain('VLLM_KEY in --key-env is not set')
  const env = { ASSAY_URL: service.url, ASSAY_KEY: key, VLLM_KEY: 'my-vllm-key-1' }
  const added = await assay(['models', 'add', 'custom/vllm', ...flags], { env })
  expect(added).toMatchObject({ code: 0, err: expect.stringContaining('Its key is stored.') })
})

test('the key of a model in a cloud is stored in the field of the cloud, or added by hand', async () => {
  const azure = [
    '--cloud',
    'azure',
    '--base-url',
    'https://a.openai.azure.com/openai/v1',
    '--input',
    '1',
    '--output',
    '2',
  ]
  const env = { ASSAY_URL: service.url, ASSAY_KEY: key, AZURE_OPENAI_API_KEY: 'my-azure-key-1' }
  const added = await assay(['models', 'add', 'custom/azure', ...azure, '--key-env', 'AZURE_OPENAI_API_KEY'], { env })
  expect(added).toMatchObject({ code: 0, err: expect.stringContaining('Its key is stored.') })

  const bedrock = ['--cloud', 'bedrock', '--base-url', 'http://127.0.0.1:9000']
  const refused = await assay(['models', 'add', 'custom/aws', ...bedrock, '--key-env', 'AZURE_OPENAI_API_KEY'], { env })
  expect(refused).toMatchObject({
    code: 2,
    err: expect.stringContaining('Credentials of bedrock have several fields.'),
  })
  const later = await run(['add', 'custom/aws', ...bedrock])
  expect(later.err).toContain('Its key: assay credentials add model custom/aws --name key')
  expect((await run(['add', 'custom/aws2', ...bedrock, '--protocol', 'gemini'])).err).toMatch(
    /^error: --protocol: must be/,
  )
  expect((await run(['add', 'custom/x', '--cloud', 'aws', '--base-url', 'http://127.0.0.1:9000'])).code).toBe(2)
})

test('an address in another private network is refused with the setting that allows it', async () => {
  const flags = '--base-url http://10.0.0.7:8000/v1'
  const { code, err } = await run(['add', 'custom/house.2', ...flags.split(' ')])
  expect(code).toBe(1)
  expect(err).toMatch(/^error: --base-url: must be an address in a network that ASSAY_MODEL_NETWORKS allows/)
  expect((await run(['add', 'custom/paid', '--base-url', 'https://models.example.com/v1'])).err).toContain(
    '--input is missing',
  )
})

test('lists the catalog without a service, and the list of custom models refers to it', async () => {
  const { code, out } = await assay(['models', 'catalog'])
  expect(code).toBe(0)
  expect(out).toMatch(/^MODEL +PROVIDER +LEVELS +DEFAULT +IN +OUT\nreference /)
  expect(out).toMatch(/^anthropic\/claude-opus-5-5 +anthropic .* 4 +20$/m)
  expect(JSON.parse((await assay(['models', 'catalog', '--json'])).out).models[0]).toMatchObject({
    catalogId: 'reference',
  })
  expect((await run(['list'])).err).toContain('assay models catalog')
})
