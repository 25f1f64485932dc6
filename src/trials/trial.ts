import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Step } from '../harbor/task.ts'
import { newId } from '../platform/ids.ts'
import {
  type Exit,
  type Image,
  type Provider,
  type Remains,
  type Sandbox,
  SandboxUnavailable,
} from '../sandboxes/sandbox.ts'
import type { Bench, TrialRequest } from './bench.ts'
import { agentLimits } from './limits.ts'
import { goesOn, trialOutcome } from './outcome.ts'
import type { StepRecord, TrialRecord } from './record.ts'
import { stage } from './stage.ts'
import { requireSupported } from './support.ts'
import { filledEnv } from './variables.ts'
import { verify } from './verify.ts'

/**
 * Runs one harness on one task: prepare, agent, kill, collect from outside, verify in a fresh sandbox, read the reward.
 * A sandbox that broke is an outcome of its own, and never a zero. Throws for what a caller can mend before anything ran.
 */
export async function runTrial(provider: Provider, request: TrialRequest): Promise<TrialRecord> {
  requireSupported(request.task)
  const started = performance.now()
  const folder = await mkdtemp(join(tmpdir(), 'assay-trial-'))
  const timings = { prepare: 0, agent: 0, verify: 0, total: 0 }
  const { isolation } = await provider.selfTest()
  const about = {
    task: { name: request.task.name, digest: request.digest },
    harness: request.harness.id,
    isolation,
    verifyMode: request.verifyMode,
  }
  const removals: Promise<void>[] = []
  let base: Image['base'] = 'image'
  const steps: StepRecord[] = []
  try {
    const image = await timed(timings, 'prepare', () => prepare(provider, request))
    base = image.base
    await runSteps({ provider, request, folder, removals, timings, image }, steps)
    return {
      ...about,
      base,
      steps,
      timings: ended(timings, started),
      ...trialOutcome(steps, request.task.rewardStrategy),
    }
  } catch (error) {
    if (!(error instanceof SandboxUnavailable)) throw error
    const broke = { state: 'errored', class: 'sandbox_error', reward: null, rewards: {}, limit: null } as const
    return { ...about, base, steps, timings: ended(timings, started), ...broke, error: error.message }
  } finally {
    await Promise.allSettled(removals)
    await rm(folder, { recursive: true, force: true })
  }
}

type Timings = TrialRecord['timings']
type Context = {
  provider: Provider
  request: TrialRequest
  folder: string
  removals: Promise<void>[]
  timings: Timings
  image: Image
}

function prepare(provider: Provider, request: TrialRequest): Promise<Image> {
  request.onPhase('prepare', null)
  return provider.prepare(request.task.environment, request.folder, { signal: request.signal, onLog: () => {} })
}

/** Each step begins with what the agent left in the one before; the verifier of a step is seen by no later one. */
async function runSteps(context: Context, steps: StepRecord[]): Promise<void> {
  const { request, timings, image } = context
  let before: Sandbox | undefined
  for (const [index, step] of request.task.steps.entries()) {
    const bench = await benchFor(context, index)
    request.onPhase('agent', step.name)
    const agent = await timed(timings, 'agent', () => runAgent(bench, image, step, before?.remains))
    const left = agent?.sandbox ?? before
    request.onPhase('verify', step.name)
    const verdict = await timed(timings, 'verify', () => verify(bench, image, step, left?.remains))
    if (before && left !== before) bench.removeLater(before)
    before = left
    const record = { name: step.name, agent: agent?.exit ?? null, ...verdict }
    steps.push(record)
    if (!goesOn(record, step.minReward)) break
  }
  if (before) context.removals.push(before.remove())
}

async function runAgent(
  bench: Bench,
  image: Image,
  step: Step,
  before: Remains | undefined,
): Promise<{ exit: Exit; sandbox: Sandbox } | undefined> {
  const { request, folder } = bench
  const { task, variables } = request
  const plan = request.harness.plan(step, task.solutionEnv)
  if (!plan) return undefined
  const mounts = await Promise.all(
    plan.folders.map(async ({ source, target }, n) => ({
      source: await stage(request.folder, [source], join(folder, `agent-${n}`)),
      target,
      readOnly: true,
    })),
  )
  return bench.run('agent', {
    image,
    seed: before ? { kind: 'snapshot', from: before, without: ['/tests', '/logs', '/solution'] } : { kind: 'image' },
    command: plan.command,
    user: step.agent.user,
    workdir: task.environment.workdir,
    env: { ...filledEnv(task.environment.env, variables), ...filledEnv(plan.env, variables) },
    mounts,
    limits: agentLimits(task.environment.resources, step.agent.timeoutSec),
    input: plan.input,
  })
}

async function benchFor(context: Context, index: number): Promise<Bench> {
  const { provider, request } = context
  const folder = join(context.folder, String(index))
  await mkdir(folder)
  return {
    request,
    folder,
    run: async (phase, spec) => {
      const outputFile = join(request.outputFolder, `${phase}-${index + 1}.log`)
      const id = `${newId()}-${phase}`
      const sandbox = await provider.start({ ...spec, id, network: { kind: 'none' }, gateway: null, outputFile })
      return { exit: await exitOf(sandbox, request.signal), sandbox }
    },
    removeLater: (sandbox) => void context.removals.push(sandbox.remove()),
  }
}

async function exitOf(sandbox: Sandbox, signal: AbortSignal): Promise<Exit> {
  const stop = () => void sandbox.kill()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const exit = await sandbox.exited
    signal.throwIfAborted()
    return exit
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function timed<T>(timings: Timings, phase: keyof Timings, work: () => Promise<T>): Promise<T> {
  const started = performance.now()
  try {
    return await work()
  } finally {
    timings[phase] += (performance.now() - started) / 1000
  }
}

const ended = (timings: Timings, started: number): Timings => ({
  prepare: rounded(timings.prepare),
  agent: rounded(timings.agent),
  verify: rounded(timings.verify),
  total: rounded((performance.now() - started) / 1000),
})

/** To the millisecond. */
const rounded = (seconds: number): number => Math.round(seconds * 1000) / 1000
