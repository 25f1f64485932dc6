import type { Network, Task } from '../harbor/task.ts'
import { nop, oracle } from '../harnesses/reference.ts'
import { type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import type { TrialRequest } from './bench.ts'
import { isSystemFolder } from './carried.ts'
import { type CheatResult, tryCheats } from './cheating.ts'
import { modesOf } from './modes.ts'
import type { TrialRecord, VerifyMode } from './record.ts'
import { findStaticWeakness, type Strength, strengthOf } from './strength.ts'
import { runTrial } from './trial.ts'

/** Version of the rules by which a task is calibrated. Stored calibrations of other versions are made again. */
export const CALIBRATION_RULES = 3

/** `required`: the task says nothing, and its own solution passes only with everything public within reach. */
type Need = 'declared' | 'required'
type Needs = { agentNetwork: Need; verifierNetwork: Need }

type Outcome = Pick<TrialRecord, 'state' | 'class' | 'reward' | 'error' | 'timings'>

/** What was tried in one mode. `nop` is tried only where the oracle passed. */
type Attempt = Needs & { mode: VerifyMode; oracle: Outcome; nop: Outcome | null; carried: string[] }

/** In no mode does the author's solution score 1 and doing nothing less. */
type Unfit = { kind: 'unfit'; reason: string; attempts: Attempt[] }

/** `carried`: paths outside the working directory that the reference solution changed and that mode snapshot carries. */
export type Fit = Needs & { kind: 'fit'; mode: VerifyMode; carried: string[]; attempts: Attempt[] }

/** What is stored with a task: how it is verified, and how much that is worth. Plain data. */
export type Calibration = Unfit | (Fit & AssessedStrength)

/** `weakness`: why the files and the environment of the verifier do not show that its tests only read. Null: they do. */
type AssessedStrength = { strength: Strength; weakness: string | null; winners: string[]; cheats: CheatResult[] }

export type CalibrationRequest = Omit<TrialRequest, 'harness' | 'verifyMode' | 'networks'> & {
  /** Before each trial, with what it is for. */
  onTrial?: (what: string) => void
}

/** Finds the strictest mode, then tries the known cheats in it. Throws SandboxUnavailable: a broken sandbox says nothing. */
export async function calibrate(provider: SandboxProvider, request: CalibrationRequest): Promise<Calibration> {
  const found = await findMode(provider, request)
  if (found.kind === 'unfit') return found

  const networks = networksFor(found)
  const cheats = await tryCheats(
    provider,
    { ...request, networks, verifyMode: found.mode, carried: found.carried, isProven: true },
    request.onTrial,
  )
  const winners = cheats.filter(({ outcome }) => outcome === 'won').map(({ id }) => id)
  const weakness = await findStaticWeakness(provider, request, found)
  return { ...found, strength: strengthOf(request.task, found.mode, winners, weakness), weakness, winners, cheats }
}

/** The strictest mode in which the author's solution still scores 1 and doing nothing does not, with the least network. */
export async function findMode(provider: SandboxProvider, request: CalibrationRequest): Promise<Fit | Unfit> {
  const attempts: Attempt[] = []
  for (const needs of needsOf(request.task)) {
    for (const mode of modesOf(request.task)) {
      const attempt = await attemptOf(provider, request, mode, needs)
      attempts.push(attempt)
      const { carried } = attempt
      if (attempt.nop && attempt.nop.state !== 'passed') return { kind: 'fit', ...needs, mode, carried, attempts }
    }
    if (attempts.some(({ nop: idle }) => idle !== null)) break // it passes as it is; what is wrong is something else
  }
  return { kind: 'unfit', reason: reasonOf(attempts), attempts }
}

/** As declared first. A network is widened only where the task says nothing: the verifier's, then the agent's too. */
function needsOf({ steps }: Task): Needs[] {
  const silent = (phase: 'agent' | 'verifier') => steps.some((step) => step[phase].network.mode === 'unsaid')
  const needs: Needs[] = [{ agentNetwork: 'declared', verifierNetwork: 'declared' }]
  if (silent('verifier')) needs.push({ agentNetwork: 'declared', verifierNetwork: 'required' })
  if (silent('agent')) {
    needs.push({ agentNetwork: 'required', verifierNetwork: silent('verifier') ? 'required' : 'declared' })
  }
  return needs
}

/**
 * Runs the reference solution to learn which paths outside the working directory it changes. Only needed where somebody
 * chose the mode: calibration learns them on the way.
 */
export async function readSolutionPaths(
  provider: SandboxProvider,
  { onTrial, ...request }: CalibrationRequest,
  verifyMode: VerifyMode,
): Promise<string[]> {
  const { steps, environment } = request.task
  const isNeeded =
    verifyMode === 'snapshot' ||
    (verifyMode !== 'shared-cold' && verifyMode !== 'shared-live' && mayBeSystemFolder(environment))
  if (!isNeeded || !steps.some(({ solution }) => solution)) return []
  onTrial?.('Finding the paths that the reference solution changes')
  return pathsIn(await runTrial(provider, { ...request, harness: oracle, verifyMode, onPhase: () => {} }))
}

/** The working directory of an image is not known before it is built. */
const mayBeSystemFolder = ({ workdir }: Task['environment']): boolean => workdir === null || isSystemFolder(workdir)

const pathsIn = ({ steps }: TrialRecord): string[] => [...new Set(steps.flatMap(({ carried }) => carried))].sort()

const PUBLIC: Network = { mode: 'public', hosts: [] }

/** What stands in for a network that the task does not declare. */
export const networksFor = ({ agentNetwork, verifierNetwork }: Needs): NonNullable<TrialRequest['networks']> => ({
  ...(agentNetwork === 'required' ? { agent: PUBLIC } : {}),
  ...(verifierNetwork === 'required' ? { verifier: PUBLIC } : {}),
})

async function attemptOf(
  provider: SandboxProvider,
  { onTrial, ...request }: CalibrationRequest,
  verifyMode: VerifyMode,
  needs: Needs,
): Promise<Attempt> {
  const tried = async (harness: TrialRequest['harness'], carried: string[]) => {
    onTrial?.(`${harness.id} in mode ${verifyMode}${needs.verifierNetwork === 'required' ? ' with a network' : ''}`)
    return runTrial(provider, { ...request, harness, verifyMode, carried, networks: networksFor(needs) })
  }
  const record = await tried(oracle, [])
  const carried = pathsIn(record)
  const solved = outcomeOf(record)
  const idle = solved.state === 'passed' ? outcomeOf(await tried(nop, carried)) : null
  return { mode: verifyMode, ...needs, oracle: solved, nop: idle, carried }
}

function outcomeOf({ state, class: kind, reward, error, timings }: TrialRecord): Outcome {
  if (kind === 'sandbox_error') throw new SandboxUnavailable(error ?? 'The sandbox broke.')
  return { state, class: kind, reward, error, timings }
}

function reasonOf(attempts: Attempt[]): string {
  if (attempts.some(({ nop: idle }) => idle?.state === 'passed')) return 'Doing nothing passes its tests.'
  const first = attempts[0]?.oracle
  return `The author's solution does not pass: ${first?.error ?? `its reward is ${first?.reward ?? 'missing'}.`}`
}
