import { expect, test } from 'vitest'
import type { TaskStep } from '../harbor/task.ts'
import { tarballsFor } from './bundles/bundle.ts'
import type { Kit } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import { harnesses } from './harnesses.ts'
import { LEVELS, type ModelAccess, PROTOCOLS, type Protocol, type WireLevel } from './model-access.ts'

const STEP = { instruction: 'Do it.', solution: null } as TaskStep
const KIT: Kit = { solutionEnv: [], mcpServers: [], skillsDir: null }
const TOOLS: Kit['mcpServers'] = [
  { name: 'files', transport: 'stdio', command: 'serve', args: ['--files'] },
  { name: 'far', transport: 'streamable-http', url: 'http://far:1/mcp', headers: { 'x-key': 'k' } },
]
const accessTo = (protocol: Protocol, wireLevel: WireLevel): ModelAccess => ({
  ...{ model: 'some-model', provider: 'test', protocols: [protocol], contextTokens: 1000, outputTokens: 100 },
  ...{ protocol, level: 'high', wireLevel, baseUrl: 'http://127.0.0.1:31281', token: 'trial-token' },
})
const withModel = harnesses.filter(({ protocols }) => protocols.length > 0)
/** Whose program is in the sandbox, and is told everything there. */
const inside = withModel.filter(({ converse }) => !converse)

test('each has a name of its own, and the programs of others are locked for both kinds of machines', () => {
  expect(new Set(harnesses.map(({ id }) => id)).size).toBe(harnesses.length)
  const parts = harnesses.flatMap(({ bundle }) => bundle?.parts ?? [])
  const locks = parts.flatMap((part) => ('lock' in part ? [part.lock] : []))
  expect(locks).toHaveLength(parts.length)
  for (const lock of locks) {
    for (const cpu of ['x64', 'arm64']) expect(tarballsFor(lock, cpu)).not.toEqual([])
    for (const { integrity } of lock.tarballs) expect(integrity).toMatch(/^sha512-[\w+/]{86}==$/)
  }
})

test.each(inside)(
  '$id asks its model where it is told to, and is refused a level that it has no word for',
  (harness) => {
    for (const protocol of harness.protocols) {
      const access = accessTo(protocol, { effort: 'high' })
      expect(harness.protocolFor(access, 'high', { effort: 'high' })).toBe(protocol)
      const run = harness.plan(STEP, KIT, access)
      const told = JSON.stringify([run?.env, run?.files])
      expect(told).toContain('http://127.0.0.1:31281')
      expect(told).toContain('trial-token')
      // What is on the command line can be read by everyone on a machine.
      expect(run?.command.join(' ')).not.toContain('trial-token')
      for (const { path } of run?.files ?? []) expect(path).not.toMatch(/^\/|\.\./)
    }
    expect(harness.protocolFor(accessTo('gemini', { effort: 'x' }), 'max', { effort: 'ultra-high' })).toBeUndefined()
    expect(() => harness.plan(STEP, KIT)).toThrow(HarnessUnfit)
  },
)

test.each(inside)('$id tells its program of the tools of a task, or says that it cannot', (harness) => {
  const [protocol = 'gemini'] = harness.protocols
  const plan = () => harness.plan(STEP, { ...KIT, mcpServers: TOOLS }, accessTo(protocol, { effort: 'high' }))
  if (harness.id === 'pi') return expect(plan).toThrow(HarnessUnfit)
  const told = JSON.stringify(plan()?.files)
  for (const word of ['serve', '--files', 'http://far:1/mcp', 'x-key']) expect(told).toContain(word)
})

test('what a level is on the wire is never a level of another name', () => {
  for (const { protocolFor, protocols } of withModel) {
    for (const protocol of PROTOCOLS) {
      for (const level of LEVELS) {
        const found = protocolFor(accessTo(protocol, { effort: level }), level, { effort: level })
        if (found !== undefined) expect([found, protocols.includes(found)]).toEqual([protocol, true])
      }
    }
  }
})
