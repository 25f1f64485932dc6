import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import {
  createScriptedEngine,
  openRepositoryComparisonLab,
  type ScriptedEngine,
} from '../../test/support/comparisons.ts'
import { addHarness } from '../catalog/custom-harnesses/schema.ts'
import { addModel } from '../catalog/schema.ts'
import { createConfiguration } from '../configurations/schema.ts'
import { createCredential } from '../credentials/schema.ts'
import { claudeCode } from '../harnesses/claude-code.ts'
import type { StepRecord } from '../trials/record.ts'

const catalogId = 'custom/house'
const STEP: StepRecord = {
  name: null,
  agent: null,
  verifier: null,
  reward: 1,
  rewards: {},
  error: null,
  carried: [],
  notes: [],
  network: {
    agent: { asked: 'undeclared', given: 'none', hosts: [], egress: null },
    verifier: { asked: 'undeclared', given: 'none', hosts: [], egress: null },
  },
  hooks: [],
  artifacts: [],
}
let app: TestApp
let lab: Awaited<ReturnType<typeof openRepositoryComparisonLab>>
let engine: ScriptedEngine
let credentialId: string
beforeAll(async () => {
  app = await testApp()
  engine = createScriptedEngine(({ configurationDigest }) =>
    configurationDigest === null ? {} : { steps: [{ ...STEP, droppedChanges: ['AGENTS.md'] }] },
  )
  lab = await openRepositoryComparisonLab(app, engine)
  await app.call(addModel, {
    body: {
      catalogId,
      name: 'house-v1',
      label: 'House',
      protocol: 'anthropic-messages',
      baseUrl: 'https://models.example.com',
      reasoningLevels: ['low', 'high'],
      defaultReasoningLevel: 'low',
      prices: { input: 1, output: 2 },
    },
  })
  const secret = { apiKey: 'sk-house-0123456789' }
  const body = { kind: 'model' as const, provider: catalogId, name: 'Own', secret }
  credentialId = (await app.call(createCredential, { body })).body.id
})
afterAll(async () => app[Symbol.asyncDispose]())

const configure = async (name: string, content: object = {}) =>
  (await app.call(createConfiguration, { body: { name, ...content } as never })).body
const choice = (over: object = {}) => ({ catalogId, credentialId, harnesses: ['claude-code'], ...over })
const create = (...models: object[]) => lab.create({ models })
const errorsOf = async (...models: object[]) => {
  const { status, body } = await create(...models)
  expect(status).toBe(422)
  return body.errors
}

test('a setting without a configuration keeps its id, and one with a configuration has a fourth part', async () => {
  const { digest } = await configure('agents-md', { files: [{ path: 'AGENTS.md', text: 'One.' }] })
  await configure('agents-md', { files: [{ path: 'AGENTS.md', text: 'Two.' }] })
  const { status, body } = await create(
    choice(),
    choice({ configuration: 'agents-md' }),
    choice({ configuration: 'agents-md@1', reasoningLevel: 'high' }),
  )
  expect(status).toBe(202)
  expect(body.settings.map(({ id }: { id: string }) => id)).toEqual([
    'custom/house|claude-code|low',
    'custom/house|claude-code|low|agents-md@2',
    'custom/house|claude-code|high|agents-md@1',
  ])
  expect(body.settings[0]).not.toHaveProperty('configuration')
  expect(body.settings[2].configuration).toEqual({ name: 'agents-md', version: 1, digest })
})

test('a request without a configuration has the hash that it always had', async () => {
  const body = lab.body({ id: '00000000-0000-4000-8000-00000000c0de' })
  await app.call(lab.endpoints.create as never, { params: lab.params, body } as never)
  const { rows } = await app.database.pool.query('select request_hash from comparisons where id = $1', [body.id])
  const { createHash } = await import('node:crypto')
  const fields = [
    ['repository', lab.params.owner?.toLowerCase(), lab.params.name?.toLowerCase()],
    [['reference', lab.reference, ['oracle', 'nop'], 'none']],
    ['local', lab.local, false, 1, null, null],
    null,
    body.tasks?.map(({ runId, taskId }: { runId: string; taskId: string }) => [runId, taskId]),
  ]
  expect(rows[0].request_hash).toEqual(createHash('sha256').update(JSON.stringify(fields)).digest())
})

test('the engine gets the digest of the configuration, and the same request is the same comparison', async () => {
  const { digest } = await configure('engine', { instructionPrefix: 'Hello.' })
  const body = lab.body({ models: [choice({ configuration: 'engine', harnesses: ['mini'] })] })
  const ask = () => app.call(lab.endpoints.create as never, { params: lab.params, body } as never)
  expect(await ask()).toMatchObject({ status: 202 })
  await configure('engine', { instructionPrefix: 'Hello again.' })
  expect(await ask()).toMatchObject({ status: 202, body: { settings: [{ configuration: { version: 1, digest } }] } })
  await lab.work()
  expect(engine.orders.filter((order) => order.configurationDigest === digest)).toHaveLength(5)
})

test('changes that were dropped are shown with the trial', async () => {
  await configure('dropped', { files: [{ path: 'AGENTS.md', text: 'Rules.' }] })
  const { body } = await create(choice(), choice({ configuration: 'dropped' }))
  await lab.work()
  const trials = await lab.trials(body.id)
  expect(trials.map(({ droppedChanges }: { droppedChanges?: string[] }) => droppedChanges ?? null).slice(0, 2)).toEqual(
    [null, ['AGENTS.md']],
  )
})

test('an unknown configuration and an unknown version are refused', async () => {
  await configure('known')
  for (const configuration of ['unknown', 'known@2'])
    expect(await errorsOf(choice(), choice({ configuration }))).toMatchObject([
      { pointer: '/models/1/configuration', code: 'unknown_configuration' },
    ])
  expect(await errorsOf(choice({ configuration: 'Known' }))).toMatchObject([
    { pointer: '/models/0/configuration', code: 'invalid_format' },
  ])
})

test('the same choice twice, with and without naming the newest version, is a duplicate', async () => {
  await configure('twice')
  expect(await errorsOf(choice({ configuration: 'twice' }), choice({ configuration: 'twice@1' }))).toMatchObject([
    { pointer: '/models/1/harnesses/0', code: 'duplicate_setting' },
  ])
})

test('the reference solution cannot be configured', async () => {
  await configure('useless')
  const reference = { catalogId: 'reference', credentialId: lab.reference, harnesses: ['oracle'] }
  expect(await errorsOf({ ...reference, configuration: 'useless' })).toMatchObject([
    { pointer: '/models/0/harnesses/0', code: 'configuration_unusable' },
  ])
})

test('MCP servers are refused for harnesses without MCP, and a URL for tasks without that network', async () => {
  await configure('stdio', { mcpServers: [{ name: 'words', command: ['node', 'words.mjs'] }] })
  expect(await errorsOf(choice({ configuration: 'stdio', harnesses: ['claude-code', 'mini', 'pi'] }))).toMatchObject([
    { pointer: '/models/0/harnesses/1', code: 'mcp_unsupported' },
    { pointer: '/models/0/harnesses/2', code: 'mcp_unsupported' },
  ])
  expect(await create(choice({ configuration: 'stdio' }))).toMatchObject({ status: 202 })
  await configure('remote', { mcpServers: [{ name: 'far', url: 'https://mcp.example.com/v1' }] })
  expect(await errorsOf(choice({ configuration: 'remote' }))).toMatchObject([
    {
      pointer: '/models/0/configuration',
      code: 'mcp_server_not_allowed',
      message: expect.stringContaining('does not allow the MCP server far at mcp.example.com'),
    },
  ])
})

test('a pinned version must be the one of the server, or a stored version of a custom harness', async () => {
  await configure('pinned', { harnesses: { 'claude-code': { version: claudeCode.version } } })
  expect(await create(choice({ configuration: 'pinned' }))).toMatchObject({ status: 202 })
  await configure('outdated', { harnesses: { 'claude-code': { version: '0.0.1' } } })
  expect(await errorsOf(choice({ configuration: 'outdated' }))).toMatchObject([
    { pointer: '/models/0/harnesses/0', code: 'harness_version_unavailable' },
  ])
  const harness = {
    id: 'custom/agent',
    name: 'Agent',
    protocols: ['anthropic-messages' as const],
    levels: { low: 'low' },
    command: ['agent'],
  }
  for (const version of ['1.0', '2.0']) await app.call(addHarness, { body: { ...harness, version } as never })
  await configure('old-agent', { harnesses: { 'custom/agent': { version: '1.0' } } })
  const { body } = await create(
    choice({ harnesses: ['custom/agent'] }),
    choice({ harnesses: ['custom/agent'], configuration: 'old-agent' }),
  )
  expect(body.settings.map(({ harnessVersion }: { harnessVersion: string }) => harnessVersion)).toEqual(['2.0', '1.0'])
})

test('a quote names the configuration and refuses the same mistakes', async () => {
  await configure('quoted')
  const quote = (configuration: string) =>
    app.call(
      lab.endpoints.quote as never,
      {
        params: lab.params,
        body: lab.body({ models: [choice(), choice({ configuration })] }),
      } as never,
    )
  const { body } = await quote('quoted')
  expect(body.perSetting.map(({ settingId }: { settingId: string }) => settingId)).toEqual([
    'custom/house|claude-code|low',
    'custom/house|claude-code|low|quoted@1',
  ])
  expect(await quote('nothing')).toMatchObject({ status: 422 })
})
