import { runGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'

const COMMIT = /^[0-9a-f]+ commit \d+$/

/** Resolves names to commit ids, in the same order. An unknown name gives undefined. */
export async function findCommits(
  place: GitLocation,
  names: readonly string[],
  signal: AbortSignal,
): Promise<(string | undefined)[]> {
  if (names.length === 0) return []
  const input = names.map((name) => `${name}^{commit}\n`)
  const lines = (await runGit(place, ['cat-file', '--batch-check'], { signal, input })).toString().split('\n')
  return names.map((_, at) => (COMMIT.test(lines[at] ?? '') ? lines[at]?.split(' ', 1)[0] : undefined))
}

export async function findMissingCommits(
  place: GitLocation,
  commits: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const found = await findCommits(place, commits, signal)
  return commits.filter((_, at) => found[at] === undefined)
}
