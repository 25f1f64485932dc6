import { runGit } from '../../../platform/git/git.ts'
import type { GitPlace } from '../../../platform/git/settings.ts'
import { type SplitCommit, splitCommit } from '../../candidates/split-commit.ts'
import { type BaseTree, readTree } from '../../environment/read-tree.ts'
import type { LintFacts } from '../../lint/finding.ts'
import type { PinnedSymbol } from '../../lint/render-instruction.ts'
import type { StageResult } from '../../stage-result.ts'
import type { Making, StageTools } from '../stage.ts'

/** What landed, again: the mirror gives the same to every stage, so that none of it is stored. */
export const readLanding = async (making: Making, tools: StageTools, signal: AbortSignal): Promise<SplitCommit> =>
  passedBefore(await splitCommit(await tools.repository(), making.candidate, signal))

export const readBase = async (making: Making, tools: StageTools, signal: AbortSignal): Promise<BaseTree> =>
  passedBefore(await readTree(await tools.repository(), making.candidate.base, signal))

function passedBefore<T>(result: StageResult<T>): T {
  if (result.kind === 'done') return result.value
  throw new Error(`What an earlier stage has read cannot be read any more: ${result.detail}`)
}

type Told = { landing: SplitCommit; pinned: readonly PinnedSymbol[]; failToPass: readonly string[] }

/** What an instruction is held against. */
export async function lintFactsOf(
  { candidate }: Making,
  tools: StageTools,
  { landing, pinned, failToPass }: Told,
  signal: AbortSignal,
): Promise<LintFacts> {
  const repository = await tools.repository()
  const { authors, commits } = await readCommits(repository.place, candidate, signal)
  return {
    ...{ pinned, source: landing.source, hidden: landing.hidden, failToPass, authors, commits },
    upstream: repository.upstream,
    issueText: [candidate.body, ...candidate.issues.map(({ body }) => body)].join('\n'),
    isEnglish: true,
  }
}

const COMMITS_MAX = 200

type Range = { base: string; head: string }

/** Who wrote it, and under which ids. */
async function readCommits(place: GitPlace, { base, head }: Range, signal: AbortSignal) {
  const args = ['log', `--max-count=${COMMITS_MAX}`, '--format=%H%n%an%n%ae', `${base}..${head}`]
  const lines = (await runGit(place, args, { signal })).toString().split('\n')
  const every = (offset: number) => lines.filter((line, at) => at % 3 === offset && line !== '')
  return { commits: every(0), authors: [...new Set([...every(1), ...every(2)])] }
}
