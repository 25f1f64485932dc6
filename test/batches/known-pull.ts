import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GitLocation } from '../../src/platform/git/settings.ts'
import { openClone } from '../../src/repos/mirror/local-clone.ts'
import { listGitHistory } from '../../src/repos/pull-requests/git-history.ts'
import type { PullRequest } from '../../src/repos/pull-requests/pull-request.ts'
import { type SplitCommit, splitCommit } from '../../src/taskgen/candidates/split-commit.ts'
import { listSymbolCandidates } from '../../src/taskgen/lint/exposed-symbols.ts'
import type { LintFacts } from '../../src/taskgen/lint/lint-instruction.ts'
import type { ExposedSymbol } from '../../src/taskgen/lint/render-instruction.ts'
import {
  listLandedTrees,
  type SampleRepository,
  type SourceTree,
  writeRepository,
} from '../support/repositories/repository.ts'

/** Opens a pull request of a sample repository as the pipeline finds it in git. */
export type KnownPull = { pullRequest: PullRequest; split: SplitCommit; before: SourceTree; facts: LintFacts }

export type KnownRepository = AsyncDisposable & { location: GitLocation; pull(number: number): Promise<KnownPull> }

const signal = new AbortController().signal

export async function openKnown(repository: SampleRepository): Promise<KnownRepository> {
  await using undo = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'assay-known-'))
  undo.defer(() => rm(folder, { recursive: true, force: true }))
  await writeRepository(folder, repository)
  const clone = undo.use(await openClone(folder, { signal }))
  const found = new Map<number, PullRequest>()
  for await (const each of listGitHistory(clone).list(signal)) found.set(each.number ?? 0, each)
  const trees = new Map([...listLandedTrees(repository)].map(({ pull, before }) => [pull.number, before]))
  const running = undo.move()
  const read = async (number: number): Promise<KnownPull> => {
    const pullRequest = found.get(number)
    const before = trees.get(number)
    if (!pullRequest || !before) throw new Error(`${repository.name} has no #${number}.`)
    const split = await splitCommit({ location: clone.location }, pullRequest, signal)
    if (split.kind !== 'done') throw new Error(`#${number} cannot be split: ${split.detail}`)
    return { pullRequest, split: split.value, before, facts: factsOf(pullRequest, split.value, before) }
  }
  const pulls = new Map<number, Promise<KnownPull>>()
  return {
    location: clone.location,
    pull(number) {
      const pull = pulls.get(number) ?? read(number)
      pulls.set(number, pull)
      return pull
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function factsOf(
  { author, head, base, body }: PullRequest,
  { source, hidden }: SplitCommit,
  before: SourceTree,
): LintFacts {
  return {
    exposed: exposedIn(before, { source, hidden }),
    source,
    hidden,
    failToPass: testNames(hidden),
    authors: [`${author} Lovelace`, 'ada@example.org'],
    upstream: ['git.example.org', 'acme/project'],
    commits: [head, base],
    issueText: body,
  }
}

/** Symbols that an instruction must name for these tests. */
export const exposedIn = (before: SourceTree, change: Pick<SplitCommit, 'source' | 'hidden'>): ExposedSymbol[] =>
  listSymbolCandidates(change).filter(({ kind, text }) => kind === 'path' || !hasWord(before, text))

/** Matches the exact text as a whole word. */
function hasWord(tree: SourceTree, text: string): boolean {
  const escaped = text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const word = new RegExp(`(?<!\\w)${escaped}(?!\\w)`)
  return [...tree.values()].some((content) => word.test(content))
}

const NAMES = /\bdef (test_\w+)|\bfunc (Test\w+)|#\[test\]\s+fn (\w+)|\btest\('([^']+)'/g

/** Returns the test names as written in their files. */
const testNames = ({ files }: SplitCommit['hidden']): string[] =>
  files.flatMap(({ path, content }) =>
    [...content.matchAll(NAMES)].map((match) => `${path}::${match.slice(1).find((name) => name !== undefined)}`),
  )
