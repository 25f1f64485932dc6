import { expect, test } from 'vitest'
import type { Exit, Sandbox, SandboxProvider, SandboxSpec } from '../sandboxes/sandbox.ts'
import { AgentLost, startOrAdopt } from './agent-handover.ts'

const EXIT: Exit = { code: 0, limit: null, seconds: 130, outputBytes: 0 }

/** Adopts an agent that had no process for 100 of its 130 seconds. Returns its limit and how it ended. */
async function adopt(exit: Exit) {
  const limits: number[] = []
  const provider = {
    adopt: async (spec: SandboxSpec) => {
      limits.push(spec.limits.seconds)
      return { exited: Promise.resolve(exit) } as Sandbox
    },
  } as unknown as SandboxProvider
  const handover = {
    agent: { sandboxId: 'sandbox', elapsedMs: 30_000, unattendedMs: 100_000 },
    onAdoptable: async () => {},
    isTakenOver: () => false,
  }
  const spec = { limits: { seconds: 60 } } as SandboxSpec
  const sandbox = await startOrAdopt(provider, handover, spec, new AbortController().signal)
  return { limits, exited: sandbox.exited }
}

test('time without a process counts neither against the limit of an adopted agent nor as its time', async () => {
  const { limits, exited } = await adopt(EXIT)
  expect(limits).toEqual([160])
  expect(await exited).toEqual({ ...EXIT, seconds: 30 })
})

test.each<[string, Exit]>([
  ['an exit code', { ...EXIT, code: 1 }],
  ['no exit code', { ...EXIT, code: null }],
])('an adopted agent that fails with %s is lost, because its failure proves nothing', async (_, exit) => {
  const { exited } = await adopt(exit)
  await expect(exited).rejects.toThrow(AgentLost)
})

test('an adopted agent that reaches a limit has ended', async () => {
  const { exited } = await adopt({ ...EXIT, code: null, limit: 'seconds' })
  expect(await exited).toMatchObject({ limit: 'seconds' })
})
