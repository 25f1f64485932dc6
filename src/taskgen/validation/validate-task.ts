import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { parseReport } from '../../grading/run-suite.ts'
import { listRequired, type SuiteOutcome, type TestLists } from '../../grading/suite.ts'
import { openFolderSource, UNTRUSTED_FILE_FLAGS } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Task } from '../../harbor/task.ts'
import { type Harness, noModel } from '../../harnesses/harness.ts'
import { createCommandHarness, nop, oracle } from '../../harnesses/reference.ts'
import { type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { DOES_NOT_APPLY } from '../../trials/cheats/cheat.ts'
import { runTrial } from '../../trials/run-trial.ts'
import type { TrialRequest } from '../../trials/trial-request.ts'
import { findStaticWeakness, rateStrength } from '../../trials/verifier-strength.ts'
import type { ExposedSymbol } from '../lint/render-instruction.ts'
import type { TaskCalibration } from '../schema.ts'
import { done, reject, rejectForTiming, type StageRejection, type StageResult, withEvidence } from '../stage-result.ts'
import { FOUND_EXIT_CODE, type GuardedCheat, listGuardedCheats } from './cheats.ts'

export type ValidateTaskInput = {
  /** The finished task. It is only read. */
  folder: string
  lists: TestLists
  /** The reference solution, as a patch. */
  source: string
  exposed: readonly ExposedSymbol[]
  /** Folder for the output of the trials. */
  outputFolder: string
  counts?: TrialCounts
  /** Runs of the solution that the execution has seen to pass in the same environment. They count as runs of the oracle. */
  executedRuns?: number
  onTrial?: (harnessId: string) => void
}

/**
 * Validates the stored files of a task: the no-op fails for the right reason, the reference solution always passes,
 * and no known cheat does. Stops at the first fault. Throws SandboxUnavailable, which is not a verdict.
 */
export async function validateTask(
  provider: SandboxProvider,
  input: ValidateTaskInput,
  signal: AbortSignal,
): Promise<StageResult<ValidationReport>> {
  const { task, digest } = await readTask(await openFolderSource(input.folder), { includeIgnored: true })
  await mkdir(input.outputFolder, { recursive: true })
  const request = {
    task,
    digest,
    folder: input.folder,
    outputFolder: input.outputFolder,
    variables: {},
    signal,
    onPhase: () => {},
    verifyMode: VERIFY_MODE,
    isProven: true,
  }
  const trials: ValidationTrials = { nop: [], oracle: [], gold: [], cheats: [] }
  const context: ValidationContext = {
    input,
    trials,
    runHarness: (harness, options) => {
      input.onTrial?.(harness.id)
      return runValidationTrial(provider, { ...request, ...options }, harness)
    },
  }
  const fault = await findFirstFault(context)
  if (fault) return withEvidence(fault, { digest, ...summariseTrials(trials) })
  const weakness = await findStaticWeakness(provider, request, { mode: VERIFY_MODE, carried: [] })
  return done({ digest, ...buildReport(task, trials, weakness) })
}

const VERIFY_MODE = 'workspace' as const

type ValidationTrials = {
  nop: ValidationTrial[]
  oracle: ValidationTrial[]
  /** Trials of the patch of the reference solution, applied as an agent would. */
  gold: ValidationTrial[]
  cheats: (CheatValidation & Pick<GuardedCheat, 'verdict'>)[]
}
type ValidationContext = {
  input: ValidateTaskInput
  trials: ValidationTrials
  runHarness(harness: Harness, options?: Pick<TrialRequest, 'notApplicableCode'>): Promise<ValidationTrial>
}

/** Runs one trial of each kind first, because most faults show there. Repetitions come last. */
async function findFirstFault(context: ValidationContext): Promise<StageRejection | undefined> {
  const { counts = FULL_COUNTS, executedRuns = 0 } = context.input
  const { nop: nopRuns, oracle: oracleRuns, oracleAll } = counts
  return (
    (await runNop(context, 1)) ??
    (await runOracle(context, 1)) ??
    (await runPatchAsAgent(context)) ??
    (await runNop(context, nopRuns)) ??
    (await runOracle(context, oracleRuns)) ??
    (await runCheats(context)) ??
    (await runOracle(context, Math.max(oracleRuns, oracleAll - executedRuns)))
  )
}

/** Runs the no-op until there are `count` trials of it. Returns the first fault. */
async function runNop(
  { trials, input, runHarness }: ValidationContext,
  count: number,
): Promise<StageRejection | undefined> {
  while (trials.nop.length < count) {
    const trial = await runHarness(nop)
    trials.nop.push(trial)
    const fault = checkNop(trial, input.lists)
    if (fault) return fault
  }
  return undefined
}

/** Runs the reference solution until there are `count` trials of it. Returns the first fault. */
async function runOracle(
  { trials, input, runHarness }: ValidationContext,
  count: number,
): Promise<StageRejection | undefined> {
  while (trials.oracle.length < count) {
    const [first] = trials.oracle
    const trial = await runHarness(oracle)
    trials.oracle.push(trial)
    const fault = checkOracle(trial, input.lists, first)
    if (fault) return fault
  }
  return undefined
}

async function runPatchAsAgent({ trials, input, runHarness }: ValidationContext): Promise<StageRejection | undefined> {
  const trial = await runHarness(createPatchHarness(input.source))
  trials.gold.push(trial)
  return checkAgentPatch(trial, input.lists)
}

async function runCheats({ trials, input, runHarness }: ValidationContext): Promise<StageRejection | undefined> {
  for (const { id, what, script, tries = 1, verdict } of listGuardedCheats(input)) {
    const harness = { ...createCommandHarness(script), id: `cheat:${id}` }
    let outcome: CheatValidation['outcome'] = 'lost'
    for (let attempt = 0; attempt < tries && outcome === 'lost'; attempt += 1)
      outcome = toCheatOutcome(await runHarness(harness, { notApplicableCode: DOES_NOT_APPLY }))
    trials.cheats.push({ id, what, outcome, verdict })
    if (verdict !== 'weak' && (outcome === 'won' || outcome === 'found')) return reject(verdict, `${id}: ${what}`)
  }
  return undefined
}

function toCheatOutcome({ isWon, exitCode }: ValidationTrial): CheatValidation['outcome'] {
  if (isWon) return 'won'
  if (exitCode === FOUND_EXIT_CODE) return 'found'
  return exitCode === DOES_NOT_APPLY ? 'does_not_apply' : 'lost'
}

const summariseTrials = ({ nop: nops, oracle: oracles, gold, cheats }: ValidationTrials) => ({
  nop: nops.map(summariseTrial),
  oracle: oracles.map(summariseTrial),
  gold: gold.map(summariseTrial)[0] ?? null,
  cheats: cheats.map(({ id, what, outcome }) => ({ id, what, outcome })),
})

function buildReport(task: Task, trials: ValidationTrials, weakness: string | null): Omit<ValidationReport, 'digest'> {
  const [patchTrial] = trials.gold
  const { gold, ...shown } = summariseTrials(trials)
  if (!patchTrial || !gold) throw new Error('The patch of the solution was not tried.')
  const winners = trials.cheats.filter(({ outcome }) => outcome === 'won').map(({ id }) => id)
  const strength = rateStrength(task, VERIFY_MODE, winners, weakness)
  return { isolation: patchTrial.isolation, ...shown, gold, strength, weakness, winners }
}

/** Creates a harness that applies the reference solution as an agent would, without the solution folder. */
const createPatchHarness = (source: string): Harness => ({
  id: 'gold',
  name: 'The change of the solution, made by an agent',
  version: '1',
  ...noModel,
  plan: () => ({
    command: ['sh', '-c', 'base64 -d | git apply --whitespace=nowarn -'],
    env: [],
    folders: [],
    input: Buffer.from(source, 'latin1').toString('base64'),
  }),
})

/** Runs one trial. Throws SandboxUnavailable, because a broken sandbox says nothing about the task. */
async function runValidationTrial(
  provider: SandboxProvider,
  request: Omit<TrialRequest, 'harness' | 'onVerified'>,
  harness: Harness,
): Promise<ValidationTrial> {
  let outcome: SuiteOutcome | undefined
  const onVerified = async (folder: string) => {
    outcome = await readReport(folder)
  }
  const record = await runTrial(provider, { ...request, harness, onVerified })
  if (record.class === 'sandbox_error') throw new SandboxUnavailable(record.error ?? 'The sandbox broke.')
  return {
    isWon: record.state === 'passed',
    reward: record.reward,
    exitCode: record.steps[0]?.agent?.code ?? null,
    outcome,
    seconds: Math.round(record.timings.total * 10) / 10,
    isolation: record.isolation,
  }
}

const REPORT_BYTES_MAX = 64 * 1024 * 1024

/** Reads the verifier's report; undefined if it is missing or unreadable. */
async function readReport(folder: string): Promise<SuiteOutcome | undefined> {
  const file = await open(join(folder, 'report.json'), UNTRUSTED_FILE_FLAGS).catch(() => undefined)
  if (!file) return undefined
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > REPORT_BYTES_MAX) return undefined
    return parseReport(await file.readFile('utf8'))
  } finally {
    await file.close()
  }
}

/**
 * Checks that the no-op fails for the right reason: fail-to-pass tests fail, pass-to-pass tests pass. Guards may do
 * either. If all that must keep passing are guards, nothing has to run: the tests need not compile.
 */
function checkNop({ isWon, outcome }: ValidationTrial, lists: TestLists): StageRejection | undefined {
  if (isWon) return reject('nop_passes', 'The no-op passes the tests.')
  const problem = describeBroken(outcome)
  const mustTestsRun = lists.passToPass.length > 0 || lists.guards.length === 0
  if (problem && (mustTestsRun || outcome === undefined)) return reject('nop_wrong_reason', problem)
  const passed = listPassed(outcome)
  const broken = lists.passToPass.filter((id) => !passed.has(id))
  if (broken.length > 0) return reject('nop_wrong_reason', `Without any change these do not pass: ${joinIds(broken)}`)
  const passedEarly = lists.failToPass.filter((id) => passed.has(id))
  if (passedEarly.length > 0)
    return reject('nop_wrong_reason', `Without any change these pass: ${joinIds(passedEarly)}`)
  return undefined
}

/**
 * Checks that the reference solution passes each time, with the same tests except the few that earlier runs excluded.
 */
function checkOracle(
  { isWon, outcome }: ValidationTrial,
  lists: TestLists,
  first: ValidationTrial | undefined,
): StageRejection | undefined {
  const reason = first ? 'oracle_flaky' : 'oracle_fails'
  const rejectOracle = first ? rejectForTiming : reject
  const problem = describeBroken(outcome)
  if (problem) return isTimeout(outcome) ? rejectForTiming(reason, problem) : rejectOracle(reason, problem)
  if (!isWon) return rejectOracle(reason, `With the change these do not pass: ${describeMissing(outcome, lists)}`)
  const [before, now] = [listIds((first ?? { outcome }).outcome), listIds(outcome)]
  const differences = listDifferences(before, now)
  if (differences.length <= Math.max(before.length, now.length) * UNSTABLE_SHARE_MAX) return undefined
  return rejectForTiming('oracle_flaky', `These tests are not in every run: ${joinIds(differences)}`)
}

/** Maximum share of tests with unstable names, for example names that contain addresses or times. */
const UNSTABLE_SHARE_MAX = 0.02

/**
 * Checks that the patch of the solution alone passes. Otherwise the verifier would judge agents by more than their
 * patch.
 */
function checkAgentPatch({ isWon, outcome }: ValidationTrial, lists: TestLists): StageRejection | undefined {
  if (isWon) return undefined
  const detail = describeBroken(outcome) ?? `these do not pass: ${describeMissing(outcome, lists)}`
  return reject('oracle_fails', `The change of the solution, made by an agent: ${detail}`)
}

function summariseTrial({ reward, outcome, seconds }: ValidationTrial): ValidationRun {
  const ids = listIds(outcome).length
  const passed = listPassed(outcome).size
  return { reward, passed, notPassed: ids - passed, seconds }
}

function describeBroken(outcome: SuiteOutcome | undefined): string | undefined {
  if (outcome === undefined) return 'The verifier left no report.'
  return outcome.kind === 'broken'
    ? `The tests could not be counted: ${outcome.reason}. ${cutText(outcome.detail)}`
    : undefined
}

const isTimeout = (outcome: SuiteOutcome | undefined): boolean =>
  outcome?.kind === 'broken' && outcome.reason === 'timeout'

const listIds = (outcome: SuiteOutcome | undefined): string[] =>
  outcome?.kind === 'ran' ? Object.keys(outcome.run.statuses) : []

const listPassed = (outcome: SuiteOutcome | undefined): Set<string> =>
  new Set(
    outcome?.kind === 'ran'
      ? Object.entries(outcome.run.statuses).flatMap(([id, status]) => (status === 'passed' ? [id] : []))
      : [],
  )

function describeMissing(outcome: SuiteOutcome | undefined, lists: TestLists): string {
  const passed = listPassed(outcome)
  return joinIds(listRequired(lists).filter((id) => !passed.has(id)))
}

const listDifferences = (one: string[], other: string[]): string[] =>
  [...new Set(one).symmetricDifference(new Set(other))].toSorted()

const LISTED_MAX = 5
const DETAIL_LENGTH_MAX = 2000

const joinIds = (ids: string[]): string =>
  cutText(
    `${ids.slice(0, LISTED_MAX).join(', ')}${ids.length > LISTED_MAX ? ` and ${ids.length - LISTED_MAX} more` : ''}.`,
  )

const cutText = (text: string): string => text.slice(0, DETAIL_LENGTH_MAX)

/** Numbers of trials: of the no-op, of the oracle before the cheats, and of the oracle in all before a task is ready. */
export type TrialCounts = { nop: number; oracle: number; oracleAll: number }

/** Default numbers. Ten runs without a failure exclude, at 95 %, a solution that fails in more than 26 % of its runs. */
export const FULL_COUNTS: TrialCounts = { nop: 3, oracle: 3, oracleAll: 10 }

/** A trial of the finished task with the verifier's report. */
type ValidationTrial = {
  isWon: boolean
  reward: number | null
  /** Exit code of the agent. Null if there was no agent or it was stopped. */
  exitCode: number | null
  outcome: SuiteOutcome | undefined
  seconds: number
  isolation: string
}

/** Stored summary of a trial. */
type ValidationRun = { reward: number | null; passed: number; notPassed: number; seconds: number }

type CheatValidation = {
  id: string
  what: string
  /** `found`: the cheat found content that must not be in the image, whatever its reward. */
  outcome: 'lost' | 'won' | 'found' | 'does_not_apply'
}

/** Result of the validation of the stored files. Plain data. */
export type ValidationReport = {
  digest: string
  isolation: string
  nop: ValidationRun[]
  oracle: ValidationRun[]
  /** The reference solution applied as an agent would, without the solution folder. */
  gold: ValidationRun
  cheats: CheatValidation[]
  /** Strength of the verifier, by the rule of calibration. */
  strength: NonNullable<TaskCalibration['strength']>
  /** Why the files and the environment of the verifier do not show that its tests only read. Null if they do. */
  weakness: string | null
  /** The cheats that make it weak. */
  winners: string[]
}
