import { join } from 'node:path'
import type { Healthcheck, TaskStep } from '../harbor/task.ts'
import { type HarnessRun, HOME } from '../harnesses/harness.ts'
import type { Exit, Mount, Sandbox, SandboxUpload } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import { converse } from './converse.ts'
import { homeOf, runOf } from './harness-place.ts'
import { NeverReady, patienceSec } from './health.ts'
import { hooksAfterwards, hooksInside, mainHooks } from './hooks.ts'
import { inhabit, runIn } from './inhabit.ts'
import { AGENT_OUTPUT_BYTES, agentSeconds } from './limits.ts'
import type { ExecWish, Living } from './living.ts'
import type { NetworkRecord, PhaseNetwork } from './network.ts'
import type { HookRecord } from './record.ts'
import { agentSeed } from './seeds.ts'
import { stage } from './stage.ts'
import { isInhabited, type MainWish, type Surroundings } from './surroundings.ts'
import { type Ownership, tarOf, tarOfFolders } from './tar.ts'
import { filledEnv } from './variables.ts'

/** What the agent's phase left. */
export type AgentLeft = {
  /** Null when the harness runs nothing. */
  exit: Exit | null
  /** Undefined when nothing was run at all. */
  sandbox: Sandbox | undefined
  /** Still alive, when it is to be tested like that. */
  living: Living | undefined
  hooks: HookRecord[]
  network: NetworkRecord
}

type Plan = { run: HarnessRun | undefined; wish: MainWish; exec: ExecWish; seconds: number }

/** Sets the stage for one step, and lets the harness work. */
export async function runAgent(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { before, keepAlive }: { before: Sandbox | undefined; keepAlive: boolean },
): Promise<AgentLeft> {
  const network = bench.network(step.agent.network, 'agent')
  try {
    const plan = await planOf(bench, around, step, { before, network })
    if (keepAlive || isInhabited(around) || step.setup || step.healthcheck || bench.request.harness.converse) {
      return await runInside(bench, around, step, { plan, keepAlive })
    }
    return await runAlone(bench, around, step, { plan, before })
  } finally {
    network.close()
  }
}

/** Tries whether the sandbox of a step can be had at all. */
export async function tryStage(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  before: Sandbox | undefined,
): Promise<void> {
  const network = bench.network({ mode: 'no-network', hosts: [] }, 'agent')
  const { wish } = await planOf(bench, around, step, { before, network })
  const exec = { command: ['true'], seconds: PROBE_SECONDS }
  const { sandbox } = await runIn(bench, around, 'probe', { wish, exec })
  bench.removeLater(sandbox)
}

const PROBE_SECONDS = 60

/** The sandbox of a first step as the agent found it. It is dead. */
export async function untouched(bench: Bench, around: Surroundings, step: TaskStep): Promise<Sandbox> {
  const network = bench.network(step.agent.network, 'agent')
  try {
    const plan = await planOf(bench, around, step, { before: undefined, network })
    const exec = { command: ['true'], seconds: PROBE_SECONDS }
    if (!step.setup) return (await runIn(bench, around, 'untouched', { wish: { ...plan.wish, env: {} }, exec })).sandbox
    const living = await inhabit(bench, around, 'untouched', { ...plan.wish, env: {} })
    await setUp(around, living, plan)
    await living.end({ code: 0, limit: null, seconds: 0, outputBytes: 0 })
    return living.sandbox
  } finally {
    network.close()
  }
}

async function planOf(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { before, network }: { before: Sandbox | undefined; network: PhaseNetwork },
): Promise<Plan> {
  const { variables } = bench.request
  const run = runOf(bench.request, step)
  const env = { ...(run?.files ? { HOME } : {}), ...filledEnv(run?.env ?? [], variables) }
  const seconds = agentSeconds(step.agent.timeoutSec)
  const user = step.agent.user ?? around.user
  return {
    run,
    seconds,
    wish: {
      seed: agentSeed(before?.stopped),
      inserts: [...insertsOf(bench, around, step, user), ...homeOf(run, ownershipFor(user))],
      mounts: [...(await mountsOf(bench, run)), ...bench.mounts],
      env,
      network,
      limits: { seconds, outputBytes: AGENT_OUTPUT_BYTES },
    },
    exec: {
      command: run?.command ?? ['true'],
      user,
      env,
      seconds,
      outputBytes: AGENT_OUTPUT_BYTES,
      input: run?.input ?? '',
    },
  }
}

function insertsOf(bench: Bench, around: Surroundings, step: TaskStep, user: string | number): SandboxUpload[] {
  const logs = { target: '/', tar: tarOfFolders(['logs', 'logs/agent', 'logs/artifacts']) }
  if (step.workdir === null) return [logs]
  const tar = tarOf(join(bench.request.folder, step.workdir), ownershipFor(user))
  return [logs, { target: around.workdir, tar }]
}

/** The agent must be able to work with what is put there. Whose name is a word, is known in its image only. */
function ownershipFor(user: string | number): Ownership {
  const [name = ''] = String(user).split(':')
  if (name === 'root') return { uid: 0, open: false }
  return /^\d+$/.test(name) ? { uid: Number(name), open: false } : { uid: 0, open: true }
}

const mountsOf = (bench: Bench, run: HarnessRun | undefined): Promise<Mount[]> =>
  Promise.all(
    (run?.folders ?? []).map(async ({ source, target }, n) => ({
      kind: 'folder' as const,
      source: await stage(bench.request.folder, [source], join(bench.folder, `agent-${n}`)),
      target,
      readOnly: true,
    })),
  )

/** The agent is the first process of its sandbox. */
async function runAlone(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { plan, before }: { plan: Plan; before: Sandbox | undefined },
): Promise<AgentLeft> {
  const ran =
    plan.run || step.workdir
      ? await runIn(bench, around, 'agent', { ...plan, onStarted: bench.markAgentBegun })
      : undefined
  const { records, left } = await hooksAfterwards(bench, around, mainHooks(step), ran?.sandbox ?? before)
  if (ran && left !== ran.sandbox) bench.removeLater(ran.sandbox)
  const exit = plan.run && ran ? ran.exit : null
  return { exit, sandbox: left, living: undefined, hooks: records, network: plan.wish.network.summary() }
}

/** The agent comes into an environment that lives already. */
async function runInside(
  bench: Bench,
  around: Surroundings,
  step: TaskStep,
  { plan, keepAlive }: { plan: Plan; keepAlive: boolean },
): Promise<AgentLeft> {
  const seconds = plan.seconds + otherSeconds(around, step)
  const wish = { ...plan.wish, env: {}, limits: { ...plan.wish.limits, seconds } }
  const living = await inhabit(bench, around, 'agent', wish)
  if (step.setup) await setUp(around, living, plan)
  if (step.healthcheck) await living.healthy('the step', ['bash', '-c', step.healthcheck.command], step.healthcheck)
  bench.markAgentBegun()
  const worked = plan.run ? await letWork(bench, living, step, plan) : null
  const hooks = await hooksInside(bench, living, mainHooks(step))
  const left = { sandbox: living.sandbox, hooks, network: plan.wish.network.summary() }
  if (keepAlive) return { ...left, exit: worked, living }
  const ended = await living.end(worked ?? { code: 0, limit: null, seconds: 0, outputBytes: 0 })
  return { ...left, exit: worked && ended, living: undefined }
}

const letWork = (bench: Bench, living: Living, step: TaskStep, { exec }: Plan): Promise<Exit> =>
  bench.request.harness.converse ? converse(bench, living, step, exec) : living.exec('agent', exec)

async function setUp(around: Surroundings, living: Living, { exec: { user } }: Plan): Promise<void> {
  const command = ['bash', `${around.workdir}/setup.sh`]
  const seconds = around.environment.buildTimeoutSec
  const { code, limit } = await living.exec('setup', { command, seconds, ...(user === undefined ? {} : { user }) })
  if (code !== 0) throw new NeverReady(`The setup.sh of the step failed: ${limit ?? `code ${code}`}.`)
}

const SLACK_SECONDS = 120

/** What happens in the agent's sandbox besides the agent. */
function otherSeconds({ environment }: Surroundings, step: TaskStep): number {
  const checks = [step.healthcheck].filter((each): each is Healthcheck => each !== null).map(patienceSec)
  const hooks = mainHooks(step).map(({ timeoutSec }) => timeoutSec)
  const all = [...checks, ...hooks, step.setup ? environment.buildTimeoutSec : 0, step.verifier.timeoutSec]
  return all.reduce((sum, each) => sum + each, SLACK_SECONDS)
}
