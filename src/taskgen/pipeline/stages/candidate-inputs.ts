import { runGit } from '../../../platform/git/git.ts'
import type { GitLocation } from '../../../platform/git/settings.ts'
import { type SplitCommit, splitCommit } from '../../candidates/split-commit.ts'
import { type BaseTree, readTree } from '../../environment/read-tree.ts'
import type { LintFacts } from '../../lint/finding.ts'
import type { PinnedSymbol } from '../../lint/render-instruction.ts'
import type { StageResult } from '../../stage-result.ts'
import type { CandidateState, StageContext } from '../stage.ts'

/** Reads the change again from the mirror, so that it need not be stored. */
export const readChange = async (
  state: CandidateState,
  context: StageContext,
  signal: AbortSignal,
): Promise<SplitCommit> => requireDone(await splitCommit(await context.repository(), state.candidate, signal))

export const readBase = async (state: CandidateState, context: StageContext, signal: AbortSignal): Promise<BaseTree> =>
  requireDone(await readTree(await context.repository(), state.candidate.base, signal))

function requireDone<T>(result: StageResult<T>): T {
  if (result.kind === 'done') return result.value
  throw new Error(`The change can no longer be read: ${result.detail}`)
}

type InstructionContext = { change: SplitCommit; pinned: readonly PinnedSymbol[]; failToPass: readonly string[] }

/** Loads the facts that an instruction is checked against. */
export async function loadLintFacts(
  { candidate }: CandidateState,
  context: StageContext,
  { change, pinned, failToPass }: InstructionContext,
  signal: AbortSignal,
): Promise<LintFacts> {
  const repository = await context.repository()
  const { authors, commits } = await readCommits(repository.place, candidate, signal)
  return {
    pinned,
    source: change.source,
    hidden: change.hidden,
    failToPass,
    authors,
    commits,
    upstream: repository.upstream,
    issueText: [candidate.body, ...candidate.issues.map(({ body }) => body)].join('\n'),
    isEnglish: true,
  }
}

const COMMITS_MAX = 200

type CommitBounds = { base: string; head: string }

/** Reads authors and ids of the commits. */
async function readCommits(place: GitLocation, { base, head }: CommitBounds, signal: AbortSignal) {
  const args = ['log', `--max-count=${COMMITS_MAX}`, '--format=%H%n%an%n%ae', `${base}..${head}`]
  const lines = (await runGit(place, args, { signal })).toString().split('\n')
  const every = (offset: number) => lines.filter((line, at) => at % 3 === offset && line !== '')
  return { commits: every(0), authors: [...new Set([...every(1), ...every(2)])] }
}
