import { mkdir } from 'node:fs/promises'
import type { TestLists } from '../../grading/suite.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Harness } from '../../harnesses/harness.ts'
import { nop } from '../../harnesses/nop.ts'
import { oracle } from '../../harnesses/oracle.ts'
import { shellCommand } from '../../harnesses/shell-command.ts'
import type { SandboxProvider } from '../../sandboxes/sandbox.ts'
import { DOES_NOT_APPLY } from '../../trials/cheats/cheat.ts'
import type { PinnedSymbol } from '../lint/render-instruction.ts'
import { done, reject, type StageRejection, type StageResult, withEvidence } from '../stage-result.ts'
import { runValidationTrial } from './attempt.ts'
import { FOUND, type GuardedCheat } from './cheats/guarded-cheat.ts'
import { listGuardedCheats } from './cheats/guarded-cheats.ts'
import { patchHarness } from './gold-as-agent.ts'
import { checkAgentPatch, checkNop, checkOracle, summariseTrial } from './judge-attempts.ts'
import {
  type CheatResult,
  FULL_COUNTS,
  type TrialCounts,
  type ValidationReport,
  type ValidationTrial,
} from './validation.ts'

export type ValidateTaskInput = {
  /** The finished task. It is only read. */
  folder: string
  lists: TestLists
  /** The change that solves it. */
  source: string
  pinned: readonly PinnedSymbol[]
  /** For what the trials say. */
  outputFolder: string
  counts?: TrialCounts
  onTrial?: (what: string) => void
}

/**
 * Validates the stored files of a task: the no-op fails for the right reason, the reference solution always passes,
 * and no known cheat does. Stops at the first fault. Throws SandboxUnavailable, which is not a verdict.
 */
export async function validateTask(
  provider: SandboxProvider,
  order: ValidateTaskInput,
  signal: AbortSignal,
): Promise<StageResult<ValidationReport>> {
  const { task, digest } = await readTask(await openFolderSource(order.folder))
  await mkdir(order.outputFolder, { recursive: true })
  const request = {
    task,
    digest,
    folder: order.folder,
    outputFolder: order.outputFolder,
    variables: {},
    signal,
    ...({ onPhase: () => {}, verifyMode: 'workspace', isProven: true } as const),
  }
  const seen: ValidationTrials = { nop: [], oracle: [], gold: [], cheats: [] }
  const bench: ValidationContext = {
    order,
    seen,
    tryOut: (harness) => {
      order.onTrial?.(harness.id)
      return runValidationTrial(provider, request, harness)
    },
  }
  const fault = await findFirstFault(bench)
  return fault ? withEvidence(fault, { digest, ...summariseTrials(seen) }) : done(buildReport(digest, seen))
}

type ValidationTrials = {
  nop: ValidationTrial[]
  oracle: ValidationTrial[]
  gold: ValidationTrial[]
  cheats: (CheatResult & Pick<GuardedCheat, 'verdict'>)[]
}
type ValidationContext = {
  order: ValidateTaskInput
  seen: ValidationTrials
  tryOut(harness: Harness): Promise<ValidationTrial>
}

/** Runs one trial of each kind first, because most faults show there. Repetitions come last. */
async function findFirstFault(bench: ValidationContext): Promise<StageRejection | undefined> {
  const { nop: nops, oracle: oracles, oracleAll } = bench.order.counts ?? FULL_COUNTS
  return (
    (await runNop(bench, 1)) ??
    (await runOracle(bench, 1)) ??
    (await runPatchAsAgent(bench)) ??
    (await runNop(bench, nops)) ??
    (await runOracle(bench, oracles)) ??
    (await runCheats(bench)) ??
    (await runOracle(bench, Math.max(oracles, oracleAll)))
  )
}

async function runNop({ seen, order, tryOut }: ValidationContext, count: number): Promise<StageRejection | undefined> {
  while (seen.nop.length < count) {
    const tried = await tryOut(nop)
    seen.nop.push(tried)
    const fault = checkNop(tried, order.lists)
    if (fault) return fault
  }
  return undefined
}

async function runOracle(
  { seen, order, tryOut }: ValidationContext,
  count: number,
): Promise<StageRejection | undefined> {
  while (seen.oracle.length < count) {
    const [first] = seen.oracle
    const tried = await tryOut(oracle)
    seen.oracle.push(tried)
    const fault = checkOracle(tried, order.lists, first)
    if (fault) return fault
  }
  return undefined
}

async function runPatchAsAgent({ seen, order, tryOut }: ValidationContext): Promise<StageRejection | undefined> {
  const tried = await tryOut(patchHarness(order.source))
  seen.gold.push(tried)
  return checkAgentPatch(tried, order.lists)
}

async function runCheats({ seen, order, tryOut }: ValidationContext): Promise<StageRejection | undefined> {
  for (const { id, what, line, tries = 1, verdict } of listGuardedCheats(order)) {
    const harness = { ...shellCommand(line), id: `cheat:${id}` }
    let outcome: CheatResult['outcome'] = 'lost'
    for (let tried = 0; tried < tries && outcome === 'lost'; tried += 1) outcome = toCheatOutcome(await tryOut(harness))
    seen.cheats.push({ id, what, outcome, verdict })
    if (verdict !== 'weak' && (outcome === 'won' || outcome === 'found')) return reject(verdict, `${id}: ${what}`)
  }
  return undefined
}

function toCheatOutcome({ isWon, exitCode }: ValidationTrial): CheatResult['outcome'] {
  if (isWon) return 'won'
  if (exitCode === FOUND) return 'found'
  return exitCode === DOES_NOT_APPLY ? 'does_not_apply' : 'lost'
}

const summariseTrials = ({ nop: nops, oracle: oracles, gold, cheats }: ValidationTrials) => ({
  nop: nops.map(summariseTrial),
  oracle: oracles.map(summariseTrial),
  gold: gold.map(summariseTrial)[0] ?? null,
  cheats: cheats.map(({ id, what, outcome }) => ({ id, what, outcome })),
})

function buildReport(digest: string, seen: ValidationTrials): ValidationReport {
  const [golden] = seen.gold
  const { gold, ...shown } = summariseTrials(seen)
  if (!golden || !gold) throw new Error('The change was not tried.')
  const winners = seen.cheats.filter(({ outcome }) => outcome === 'won').map(({ id }) => id)
  const strength = winners.length > 0 ? 'weak' : 'standard'
  return { digest, isolation: golden.isolation, ...shown, gold, strength, winners }
}
