import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Network, Task } from '../harbor/task.ts'
import type { Harness } from '../harnesses/harness.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'
import { quote } from '../sandboxes/kernel/shell.ts'
import { type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import { isStartupFile, isSystemFolder } from './base-filesystem.ts'
import { type Cheat, DOES_NOT_APPLY } from './cheats/cheat.ts'
import { PATCH_FILE } from './patch.ts'
import type { TrialRecord, VerifyMode } from './record.ts'
import { runTrial } from './run-trial.ts'
import { listModes } from './task-support.ts'
import type { TrialRequest } from './trial-request.ts'
import type { VerifierStrength } from './verifier-strength.ts'

/** Version of the rules by which a task is calibrated. Stored calibrations of other versions are repeated. */
export const CALIBRATION_RULES_VERSION = 15

/** `declared`: the network that the task declares, if any. `required`: public access, which the task does not declare. */
type NetworkNeed = 'declared' | 'required'
type NetworkNeeds = { agentNetwork: NetworkNeed; verifierNetwork: NetworkNeed }

type ControlOutcome = Pick<TrialRecord, 'state' | 'class' | 'reward' | 'error' | 'timings'>

/** Results in one mode. `nop` is tried only if the oracle passed. */
type ModeAttempt = NetworkNeeds & {
  mode: VerifyMode
  oracle: ControlOutcome
  nop: ControlOutcome | null
  carried: string[]
}

/** Result for a task that has no mode in which the reference solution scores 1 and a no-op less. */
type UnfitCalibration = { kind: 'unfit'; reason: string; attempts: ModeAttempt[] }

/** `carried`: paths that the verifier takes over from the agent by name, as in `TrialRequest`. */
type FitCalibration = NetworkNeeds & {
  kind: 'fit'
  mode: VerifyMode
  carried: string[]
  attempts: ModeAttempt[]
}

/** Stored with a task: its verify mode and the strength of its verifier. Plain data. */
export type Calibration = UnfitCalibration | (FitCalibration & AssessedStrength)

/** `weakness`: why it is not proven that the tests only read the submission. Null if it is. `winners`: ids of cheats that passed. */
type AssessedStrength = {
  strength: VerifierStrength
  weakness: string | null
  winners: string[]
  cheats: CheatTrialResult[]
}

type CalibrationRequest = Omit<TrialRequest, 'harness' | 'verifyMode' | 'networks'> & {
  /** Called before each trial with its purpose. */
  onTrial?: ((purpose: string) => void) | undefined
}

/** Finds the strictest mode, then tries the known cheats in it. Throws SandboxUnavailable if the sandbox is broken. */
export async function calibrate(provider: SandboxProvider, request: CalibrationRequest): Promise<Calibration> {
  const modeResult = await chooseMode(provider, request)
  if (modeResult.kind === 'unfit') return modeResult

  const { mode: verifyMode, carried } = modeResult
  const { onTrial, ...trial } = request
  const cheatRequest = { ...trial, networks: toNetworks(modeResult), verifyMode, carried, isProven: true }
  // Imported here, because single trials call only `chooseMode`, which does not need these modules.
  const { cheats: knownCheats } = await import('./cheats/cheats.ts')
  const { findStaticWeakness, rateStrength } = await import('./verifier-strength.ts')
  onTrial?.('Listing the files that the reference solution changes')
  const solutionFiles = await listSolutionFiles(provider, cheatRequest)
  const cheats: CheatTrialResult[] = []
  for (const cheat of knownCheats) {
    onTrial?.(`cheat ${cheat.id}`)
    cheats.push(await tryCheat(provider, cheatRequest, solutionFiles, cheat))
  }
  const winners = cheats.filter(({ outcome }) => outcome === 'won').map(({ id }) => id)
  const weakness = await findStaticWeakness(provider, request, modeResult)
  const strength = rateStrength(request.task, verifyMode, winners, weakness)
  return { ...modeResult, strength, weakness, winners, cheats }
}

/** Finds the strictest mode in which the reference solution scores 1 and a no-op does not, with the least network. */
export async function chooseMode(
  provider: SandboxProvider,
  request: CalibrationRequest,
): Promise<FitCalibration | UnfitCalibration> {
  const attempts: ModeAttempt[] = []
  for (const needs of listNetworkNeeds(request.task)) {
    for (const mode of listModes(request.task)) {
      const attempt = await tryMode(provider, request, mode, needs)
      attempts.push(attempt)
      const { carried } = attempt
      if (attempt.nop && attempt.nop.state !== 'passed') return { kind: 'fit', ...needs, mode, carried, attempts }
    }
    if (attempts.some(({ nop: noOp }) => noOp !== null)) break // The network is not the problem: the oracle passes.
  }
  return { kind: 'unfit', reason: explainUnfit(attempts), attempts }
}

/** Lists the networks to try: as declared, then public access for the verifier, then for both, where undeclared. */
function listNetworkNeeds({ steps }: Task): NetworkNeeds[] {
  const isUndeclared = (phase: 'agent' | 'verifier') => steps.some((step) => step[phase].network.mode === 'undeclared')
  const needs: NetworkNeeds[] = [{ agentNetwork: 'declared', verifierNetwork: 'declared' }]
  if (isUndeclared('verifier')) needs.push({ agentNetwork: 'declared', verifierNetwork: 'required' })
  if (isUndeclared('agent')) {
    needs.push({ agentNetwork: 'required', verifierNetwork: isUndeclared('verifier') ? 'required' : 'declared' })
  }
  return needs
}

async function tryMode(
  provider: SandboxProvider,
  { onTrial, ...request }: CalibrationRequest,
  verifyMode: VerifyMode,
  needs: NetworkNeeds,
): Promise<ModeAttempt> {
  const run = async (harness: Harness, carried: string[]) => {
    onTrial?.(`${harness.id} in mode ${verifyMode}${needs.verifierNetwork === 'required' ? ' with a network' : ''}`)
    return runTrial(provider, { ...request, harness, verifyMode, carried, networks: toNetworks(needs) })
  }
  const record = await run(oracle, [])
  const carried = listCarried(record)
  const oracleOutcome = toControlOutcome(record)
  const nopOutcome = oracleOutcome.state === 'passed' ? toControlOutcome(await run(nop, carried)) : null
  return { mode: verifyMode, ...needs, oracle: oracleOutcome, nop: nopOutcome, carried }
}

const PUBLIC_NETWORK: Network = { mode: 'public', hosts: [] }

/** Returns the networks that replace undeclared ones. */
export const toNetworks = ({ agentNetwork, verifierNetwork }: NetworkNeeds): NonNullable<TrialRequest['networks']> => ({
  agent: agentNetwork === 'required' ? PUBLIC_NETWORK : undefined,
  verifier: verifierNetwork === 'required' ? PUBLIC_NETWORK : undefined,
})

/**
 * Runs the reference solution to find the carried paths. Called for a trial whose verify mode is given; otherwise
 * calibration finds them. Does not run it in modes and folders where no path needs to be carried.
 */
export async function listSolutionPaths(
  provider: SandboxProvider,
  { onTrial, ...request }: CalibrationRequest,
  verifyMode: VerifyMode,
): Promise<string[]> {
  const { steps, environment } = request.task
  // The working directory of an image is not known before it is built.
  const mayBeSystemFolder = environment.workdir === null || isSystemFolder(environment.workdir)
  const isShared = verifyMode === 'shared-cold' || verifyMode === 'shared-live'
  const isNeeded = verifyMode === 'snapshot' || (!isShared && (mayBeSystemFolder || (await namesStartupFile(request))))
  if (!isNeeded || !steps.some(({ solution }) => solution)) return []
  onTrial?.('Finding the paths that the reference solution changes')
  return listCarried(await runTrial(provider, { ...request, harness: oracle, verifyMode, onPhase: () => {} }))
}

const SCRIPT_BYTES_MAX = 1024 ** 2

/** Returns true if the files of a reference solution name a startup file, such as `.bashrc`, which it may then change. */
async function namesStartupFile({ task, folder }: Pick<TrialRequest, 'task' | 'folder'>): Promise<boolean> {
  const folders = task.steps.flatMap(({ solution }) => (solution ? [`${solution.folder}/`] : []))
  const files = task.files.filter(
    ({ path, bytes }) => bytes <= SCRIPT_BYTES_MAX && folders.some((each) => path.startsWith(each)),
  )
  for (const { path } of files) {
    const words = (await readFile(join(folder, path), 'utf8')).split(/[\s"'`;:,=<>()|&]+/)
    if (words.some((word) => isStartupFile(`/${word}`))) return true
  }
  return false
}

const listCarried = ({ steps }: TrialRecord): string[] => [...new Set(steps.flatMap(({ carried }) => carried))].sort()

function toControlOutcome({ state, class: trialClass, reward, error, timings }: TrialRecord): ControlOutcome {
  if (trialClass === 'sandbox_error') throw new SandboxUnavailable(error ?? 'The sandbox failed.')
  return { state, class: trialClass, reward, error, timings }
}

function explainUnfit(attempts: ModeAttempt[]): string {
  if (attempts.some(({ nop: noOp }) => noOp?.state === 'passed')) return 'A no-op passes its tests.'
  const first = attempts[0]?.oracle
  return `The reference solution does not pass: ${first?.error ?? `its reward is ${first?.reward ?? 'missing'}.`}`
}

/** `errored`: the verifier gave no reward, so the cheat did not win. */
type CheatTrialResult = {
  id: string
  what: string
  outcome: 'won' | 'lost' | 'errored' | 'does_not_apply'
  tries: number
}

/** Maximum number of files of a reference solution whose names are passed to cheats. */
const SOLUTION_FILES_MAX = 200

/** Lists the files of the working directory that the reference solution creates or changes. */
async function listSolutionFiles(provider: SandboxProvider, request: Omit<TrialRequest, 'harness'>): Promise<string[]> {
  // No patch is saved for control harnesses, so the oracle runs as an ordinary one.
  const solver = { ...oracle, isControl: false }
  await runTrial(provider, { ...request, harness: solver, savesPatch: true })
  const patch = await readFile(join(request.outputFolder, PATCH_FILE), 'utf8').catch(() => '')
  return [...patch.matchAll(CHANGED_FILE)]
    .flatMap(([, diffPath, listedPath]) => diffPath ?? listedPath ?? [])
    .slice(0, SOLUTION_FILES_MAX)
}

/** A line of a patch that starts the diff of a file, or that only names a changed file, such as a binary one. */
const CHANGED_FILE = /^(?:diff --git a\/\S+ b\/(\S+)|# {3}(\S+) \((?:new|changed|removed)\b.*\))$/gm

/** Tries a cheat on the untouched task. */
async function tryCheat(
  provider: SandboxProvider,
  request: Omit<TrialRequest, 'harness'>,
  solutionFiles: readonly string[],
  { id, what, script, usesSolution = false, tries = 1 }: Cheat,
): Promise<CheatTrialResult> {
  const lists = `${toListVariable('carried', request.carried ?? [])}${toListVariable('solved', solutionFiles)}`
  const command = createCommandHarness(`${lists}${script}`)
  const harness = { ...command, id: `cheat:${id}`, plan: usesSolution ? planWithSolution(command) : command.plan }
  // A cheat that does not apply to one step of a task may win in another one, so all steps are verified.
  const notApplicableCode = request.task.steps.length === 1 ? DOES_NOT_APPLY : undefined
  for (let tried = 1; ; tried += 1) {
    const outcome = toCheatOutcome(await runTrial(provider, { ...request, harness, notApplicableCode }))
    const isDecided = outcome === 'won' || outcome === 'does_not_apply'
    if (isDecided || tried === tries) return { id, what, outcome, tries: tried }
  }
}

/** Plans a command that can run the reference solution as `$solution`. */
const planWithSolution =
  (command: Harness): Harness['plan'] =>
  (step, context) => {
    const commandRun = command.plan(step, context)
    const solutionRun = oracle.plan(step, context)
    if (!commandRun || !solutionRun) return commandRun
    const solution = { name: 'solution', value: solutionRun.command }
    return { ...commandRun, env: [...solutionRun.env, solution], folders: solutionRun.folders }
  }

/** Returns shell that sets a variable to paths, one per line. */
const toListVariable = (name: string, paths: readonly string[]): string => `${name}=${quote(paths.join('\n'))}\n`

function toCheatOutcome(record: TrialRecord): CheatTrialResult['outcome'] {
  if (record.class === 'sandbox_error') throw new SandboxUnavailable(record.error ?? 'The sandbox failed.')
  if (record.state === 'passed') return 'won'
  if (record.steps.every(({ agent }) => agent?.code === DOES_NOT_APPLY)) return 'does_not_apply'
  return record.state === 'errored' ? 'errored' : 'lost'
}
