import { GitFailed, streamGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { indexOfWord } from '../lint/finding.ts'
import { type ChangeUnderTest, listSymbolCandidates, selectPinnedSymbols } from '../lint/pinned-symbols.ts'
import type { PinnedSymbol } from '../lint/render-instruction.ts'

type BaseCommit = { place: GitLocation; commit: string }

/** Finds symbols that the tests need and the base tree lacks, so that the instruction must state them. */
export async function findPinnedSymbols(
  base: BaseCommit,
  change: ChangeUnderTest,
  signal: AbortSignal,
): Promise<PinnedSymbol[]> {
  const texts = listSymbolCandidates(change).flatMap(({ kind, text }) => (kind === 'path' ? [] : [text]))
  const missing = await findMissingTexts(base, new Set(texts), signal)
  return selectPinnedSymbols({ ...change, baseHas: (text) => !missing.has(text) })
}

/** More bytes than any text that is looked for. */
const OVERLAP = 1024

/** Returns the texts that do not occur in the tree as whole words. Stops looking for a text once it is found. */
async function findMissingTexts(
  base: BaseCommit,
  texts: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Set<string>> {
  const missing = new Map([...texts].map((text) => [text, Buffer.from(text).toString('latin1')]))
  for await (const part of streamTreeText(base, signal)) {
    for (const [text, bytes] of missing) if (indexOfWord(part, bytes) >= 0) missing.delete(text)
    if (missing.size === 0) break
  }
  return new Set(missing.keys())
}

/** Yields the lines of all text files of the tree in overlapping parts, decoded as latin1. */
async function* streamTreeText(
  { place, commit }: BaseCommit,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  let before = ''
  try {
    for await (const chunk of streamGit(place, ['grep', '-I', '-h', '--no-color', '-e', '', commit], { signal })) {
      const part = before + chunk.toString('latin1')
      yield part
      before = part.slice(-OVERLAP)
    }
  } catch (error) {
    // git grep fails without output if no file has a line.
    if (!(error instanceof GitFailed) || error.stderr !== '' || error.timedOut) throw error
  }
}
