import { expect, test } from 'vitest'
import type { TaskStep } from '../harbor/task.ts'
import { type BundleLock, listTarballs, listWheels, type WheelLock } from './bundles/bundle.ts'
import { HarnessUnfit, type TaskResources } from './harness.ts'
import { harnesses } from './harnesses.ts'
import { LEVELS, type ModelAccess, PROTOCOLS, type Protocol, type WireLevel } from './model-access.ts'

const STEP = { instruction: 'Do it.', solution: null } as TaskStep
const RESOURCES: TaskResources = { solutionEnv: [], mcpServers: [], skillsDir: null }
const MCP_SERVERS: TaskResources['mcpServers'] = [
  { name: 'files', transport: 'stdio', command: 'serve', args: ['--files'] },
  { name: 'far', transport: 'streamable-http', url: 'http://far:1/mcp', headers: { 'x-key': 'k' } },
]
const accessTo = (protocol: Protocol, wireLevel: WireLevel): ModelAccess => ({
  model: 'some-model',
  provider: 'test',
  protocols: [protocol],
  contextTokens: 1000,
  outputTokens: 100,
  protocol,
  level: 'high',
  wireLevel,
  baseUrl: 'http://127.0.0.1:31281',
  token: 'trial-token',
})
const withModel = harnesses.filter(({ protocols }) => protocols.length > 0)
/** Harnesses whose program runs in the sandbox and is configured by files and variables. */
const inside = withModel.filter(({ converse }) => !converse)

/** Packages that are not published for arm64. */
const ONLY_X64 = ['cline', 'reasonix', '@kilocode/cli']

const DIGEST = /^(sha512-[\w+/]{86}==|[0-9a-f]{64})$/
const listDigests = (lock: BundleLock | WheelLock, cpu: string): string[] =>
  'wheels' in lock
    ? listWheels(lock, cpu).map(({ sha256 }) => sha256)
    : listTarballs(lock, cpu).map(({ integrity }) => integrity)

test('harness ids are unique, and every bundle is locked for both architectures', () => {
  expect(new Set(harnesses.map(({ id }) => id)).size).toBe(harnesses.length)
  const parts = harnesses.flatMap(({ bundle }) => bundle?.parts ?? [])
  const locks = parts.flatMap((part) => ('lock' in part ? [part.lock] : []))
  expect(locks).toHaveLength(parts.length)
  for (const lock of locks) {
    const cpus = ONLY_X64.includes(lock.package) ? ['x64'] : ['x64', 'arm64']
    for (const cpu of cpus) expect(listDigests(lock, cpu)).not.toEqual([])
    for (const digest of cpus.flatMap((cpu) => listDigests(lock, cpu))) expect(digest).toMatch(DIGEST)
  }
})

test.each(inside)('$id is configured with address and token, and refuses a level that it cannot express', (harness) => {
  for (const protocol of harness.protocols) {
    const wire = WITHOUT_EFFORTS.includes(harness.id) ? { nothing: true as const } : { effort: 'high' }
    const access = accessTo(protocol, wire)
    expect(harness.protocolFor(access, 'high', wire)).toBe(protocol)
    const run = harness.plan(STEP, RESOURCES, access)
    const configuration = JSON.stringify([run?.env, run?.files])
    expect(configuration).toContain('http://127.0.0.1:31281')
    expect(configuration).toContain('trial-token')
    // Every process on a machine can read command lines.
    expect(run?.command.join(' ')).not.toContain('trial-token')
    for (const { path } of run?.files ?? []) expect(path).not.toMatch(/^\/|\.\./)
  }
  expect(harness.protocolFor(accessTo('gemini', { effort: 'x' }), 'max', { effort: 'ultra-high' })).toBeUndefined()
  expect(() => harness.plan(STEP, RESOURCES)).toThrow(HarnessUnfit)
})

/** Harnesses that cannot request a reasoning level. */
const WITHOUT_EFFORTS = [
  'cline',
  'continue',
  'grok-cli',
  'reasonix',
  'kilo',
  'mini-swe-agent',
  'gptme',
  'mistral-vibe',
  'code-puppy',
  'hermes-agent',
  'fast-agent',
  'aider',
]

/** Harnesses that have no MCP servers. */
const WITHOUT_MCP = ['pi', ...WITHOUT_EFFORTS]

test.each(inside)("$id configures the task's MCP servers, or reports that it cannot", (harness) => {
  const [protocol = 'gemini'] = harness.protocols
  const plan = () =>
    harness.plan(STEP, { ...RESOURCES, mcpServers: MCP_SERVERS }, accessTo(protocol, { effort: 'high' }))
  expect(harness.supportsMcp ?? false).toBe(!WITHOUT_MCP.includes(harness.id))
  if (WITHOUT_MCP.includes(harness.id)) return expect(plan).toThrow(HarnessUnfit)
  const configuration = JSON.stringify(plan()?.files)
  for (const word of ['serve', '--files', 'http://far:1/mcp', 'x-key']) expect(configuration).toContain(word)
})

test('a level never selects a protocol that the harness does not support', () => {
  for (const { protocolFor, protocols } of withModel) {
    for (const protocol of PROTOCOLS) {
      for (const level of LEVELS) {
        const found = protocolFor(accessTo(protocol, { effort: level }), level, { effort: level })
        if (found !== undefined) expect([found, protocols.includes(found)]).toEqual([protocol, true])
      }
    }
  }
})
