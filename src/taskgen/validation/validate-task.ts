import { mkdir } from 'node:fs/promises'
import type { TestLists } from '../../grading/suite.ts'
import { inFolder } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Harness } from '../../harnesses/harness.ts'
import { nop } from '../../harnesses/nop.ts'
import { oracle } from '../../harnesses/oracle.ts'
import { shellCommand } from '../../harnesses/shell-command.ts'
import type { Provider } from '../../sandboxes/sandbox.ts'
import { DOES_NOT_APPLY } from '../../trials/cheats/cheat.ts'
import type { PinnedSymbol } from '../lint/render-instruction.ts'
import { done, reject, type StageRejection, type StageResult, withEvidence } from '../stage-result.ts'
import { attempt } from './attempt.ts'
import { FOUND, type GuardedCheat } from './cheats/guarded-cheat.ts'
import { guardedCheats } from './cheats/guarded-cheats.ts'
import { goldAsAgent } from './gold-as-agent.ts'
import { faultOfGold, faultOfNop, faultOfOracle, runOf } from './judge-attempts.ts'
import { type Attempt, type Counts, FULL_COUNTS, type Proof, type ProofCheat } from './validation.ts'

export type ProofOrder = {
  /** The finished task. It is only read. */
  folder: string
  lists: TestLists
  /** The change that solves it. */
  source: string
  pinned: readonly PinnedSymbol[]
  /** For what the trials say. */
  outputFolder: string
  counts?: Counts
  onTrial?: (what: string) => void
}

/**
 * Shows of the very bytes that are kept what they are worth: doing nothing fails for the right reason, the solution passes
 * each time, and no known cheat does. Ends with the first fault. Throws SandboxUnavailable, which is no verdict.
 */
export async function prove(provider: Provider, order: ProofOrder, signal: AbortSignal): Promise<StageResult<Proof>> {
  const { task, digest } = await readTask(await inFolder(order.folder))
  await mkdir(order.outputFolder, { recursive: true })
  const request = {
    ...{ task, digest, folder: order.folder, outputFolder: order.outputFolder, variables: {}, signal },
    ...({ onPhase: () => {}, verifyMode: 'workspace', isProven: true } as const),
  }
  const seen: Seen = { nop: [], oracle: [], gold: [], cheats: [] }
  const bench: Bench = {
    order,
    seen,
    tryOut: (harness) => {
      order.onTrial?.(harness.id)
      return attempt(provider, request, harness)
    },
  }
  const fault = await firstFault(bench)
  return fault ? withEvidence(fault, { digest, ...shownOf(seen) }) : done(proofOf(digest, seen))
}

type Seen = {
  nop: Attempt[]
  oracle: Attempt[]
  gold: Attempt[]
  cheats: (ProofCheat & Pick<GuardedCheat, 'verdict'>)[]
}
type Bench = { order: ProofOrder; seen: Seen; tryOut(harness: Harness): Promise<Attempt> }

/** One of each first: most of what can be wrong is seen there. What is only done to be sure comes last. */
async function firstFault(bench: Bench): Promise<StageRejection | undefined> {
  const { nop: nops, oracle: oracles, oracleAll } = bench.order.counts ?? FULL_COUNTS
  return (
    (await idle(bench, 1)) ??
    (await solve(bench, 1)) ??
    (await solveAsAgent(bench)) ??
    (await idle(bench, nops)) ??
    (await solve(bench, oracles)) ??
    (await cheat(bench)) ??
    (await solve(bench, Math.max(oracles, oracleAll)))
  )
}

async function idle({ seen, order, tryOut }: Bench, count: number): Promise<StageRejection | undefined> {
  while (seen.nop.length < count) {
    const tried = await tryOut(nop)
    seen.nop.push(tried)
    const fault = faultOfNop(tried, order.lists)
    if (fault) return fault
  }
  return undefined
}

async function solve({ seen, order, tryOut }: Bench, count: number): Promise<StageRejection | undefined> {
  while (seen.oracle.length < count) {
    const [first] = seen.oracle
    const tried = await tryOut(oracle)
    seen.oracle.push(tried)
    const fault = faultOfOracle(tried, order.lists, first)
    if (fault) return fault
  }
  return undefined
}

async function solveAsAgent({ seen, order, tryOut }: Bench): Promise<StageRejection | undefined> {
  const tried = await tryOut(goldAsAgent(order.source))
  seen.gold.push(tried)
  return faultOfGold(tried, order.lists)
}

async function cheat({ seen, order, tryOut }: Bench): Promise<StageRejection | undefined> {
  for (const { id, what, line, tries = 1, verdict } of guardedCheats(order)) {
    const harness = { ...shellCommand(line), id: `cheat:${id}` }
    let outcome: ProofCheat['outcome'] = 'lost'
    for (let tried = 0; tried < tries && outcome === 'lost'; tried += 1) outcome = outcomeOf(await tryOut(harness))
    seen.cheats.push({ id, what, outcome, verdict })
    if (verdict !== 'weak' && (outcome === 'won' || outcome === 'found')) return reject(verdict, `${id}: ${what}`)
  }
  return undefined
}

function outcomeOf({ isWon, exitCode }: Attempt): ProofCheat['outcome'] {
  if (isWon) return 'won'
  if (exitCode === FOUND) return 'found'
  return exitCode === DOES_NOT_APPLY ? 'does_not_apply' : 'lost'
}

const shownOf = ({ nop: nops, oracle: oracles, gold, cheats }: Seen) => ({
  ...{ nop: nops.map(runOf), oracle: oracles.map(runOf), gold: gold.map(runOf)[0] ?? null },
  cheats: cheats.map(({ id, what, outcome }) => ({ id, what, outcome })),
})

function proofOf(digest: string, seen: Seen): Proof {
  const [golden] = seen.gold
  const { gold, ...shown } = shownOf(seen)
  if (!golden || !gold) throw new Error('The change was not tried.')
  const winners = seen.cheats.filter(({ outcome }) => outcome === 'won').map(({ id }) => id)
  const strength = winners.length > 0 ? 'weak' : 'standard'
  return { digest, isolation: golden.isolation, ...shown, gold, strength, winners }
}
