import { expect, test } from 'vitest'
import type { TaskStep } from '../harbor/task.ts'
import { buildCustomHarness, type HarnessDescription } from './custom-harness.ts'
import type { ModelAccess } from './model-access.ts'

const description = (over: Partial<HarnessDescription> = {}): HarnessDescription => ({
  id: 'custom/house',
  name: 'House',
  version: '1',
  protocols: ['openai-chat', 'gemini'],
  levels: { low: 'little', high: 'much' },
  command: ['/opt/agent', '{model}', '{level}', '{unknown}', '{instructionFile}'],
  env: {},
  files: [],
  ...over,
})
const access: ModelAccess = {
  model: 'm-{token}',
  provider: 'acme',
  protocols: ['gemini'],
  contextTokens: 1,
  outputTokens: 1,
  protocol: 'gemini',
  level: 'high',
  wireLevel: { effort: 'high' },
  baseUrl: 'http://127.0.0.1:1',
  token: 't-1',
}
const resources = { solutionEnv: [], mcpServers: [], skillsDir: null }
const plan = (over: Partial<HarnessDescription> = {}) =>
  buildCustomHarness(description(over)).plan({ instruction: 'Do {token}.' } as TaskStep, resources, access)

test('expands known placeholders once and leaves unknown ones unchanged', () => {
  expect(plan()?.command).toEqual(['/opt/agent', 'm-{token}', 'much', '{unknown}', '/assay/home/instruction.md'])
  const filled = plan({
    env: { URL: '{baseUrl}/v1', KEY: '{token}', ODD: '{constructor}{__proto__}' },
    files: [{ path: '.house/config.json', text: '{"model":"{model}","key":"{token}"}' }],
  })
  expect(filled?.env).toEqual([
    { name: 'URL', value: ['http://127.0.0.1:1/v1'] },
    { name: 'KEY', value: ['t-1'] },
    { name: 'ODD', value: ['{constructor}{__proto__}'] },
  ])
  expect(filled?.files).toEqual([
    { path: '.house/config.json', text: '{"model":"m-{token}","key":"t-1"}' },
    { path: 'instruction.md', text: 'Do {token}.' },
  ])
  expect(filled?.input).toBe('Do {token}.')
})

test('selects a protocol that harness and model support, and only for described levels', () => {
  const { protocolFor } = buildCustomHarness(description())
  expect(protocolFor(access, 'high', { effort: 'high' })).toBe('gemini')
  expect(protocolFor(access, 'max', { effort: 'max' })).toBeUndefined()
  expect(protocolFor({ ...access, protocols: ['anthropic-messages'] }, 'high', { effort: 'high' })).toBeUndefined()
})

test('an ACP agent is started by the client, with Node even if it has no bundle', () => {
  const acp = plan({ acp: true })
  expect(acp?.command.slice(-6)[0]).toBe('--')
  expect(acp?.command.slice(-5)[0]).toBe('/opt/agent')
  expect(acp?.files?.map(({ path }) => path)).toContain('.assay/acp-client.mjs')
  const { bundle } = buildCustomHarness(description({ acp: true }))
  expect(bundle?.parts.map(({ id }) => id)).toEqual(['node'])
})

test('refuses to run without a model or with MCP servers', () => {
  const { plan: planned } = buildCustomHarness(description())
  const step = { instruction: '' } as TaskStep
  const server = { name: 's', transport: 'stdio' as const, command: 'x', args: [] }
  expect(() => planned(step, resources)).toThrow('needs a model')
  expect(() => planned(step, { ...resources, mcpServers: [server] }, access)).toThrow('MCP')
})
