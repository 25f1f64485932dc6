import { GitFailed, streamGit } from '../../platform/git/git.ts'
import type { GitPlace } from '../../platform/git/settings.ts'
import { type ChangeUnderTest, pinnedSymbols, symbolsToLookFor } from '../lint/pinned-symbols.ts'
import type { PinnedSymbol } from '../lint/render-instruction.ts'
import { wordAt } from '../lint/whole-word.ts'

type BaseTree = { place: GitPlace; commit: string }

/** What an instruction must say, because tests need it and the base tree does not have it. */
export async function pinSymbols(
  base: BaseTree,
  change: ChangeUnderTest,
  signal: AbortSignal,
): Promise<PinnedSymbol[]> {
  const texts = symbolsToLookFor(change).flatMap(({ kind, text }) => (kind === 'path' ? [] : [text]))
  const missing = await missingTexts(base, new Set(texts), signal)
  return pinnedSymbols({ ...change, baseHas: (text) => !missing.has(text) })
}

/** More bytes than any text that is looked for. */
const OVERLAP = 1024

/** Those that occur nowhere in a tree as whole words. Most are found in its first files, and no longer looked for. */
async function missingTexts(base: BaseTree, texts: ReadonlySet<string>, signal: AbortSignal): Promise<Set<string>> {
  const missing = new Map([...texts].map((text) => [text, Buffer.from(text).toString('latin1')]))
  for await (const part of treeText(base, signal)) {
    for (const [text, bytes] of missing) if (wordAt(part, bytes) >= 0) missing.delete(text)
    if (missing.size === 0) break
  }
  return new Set(missing.keys())
}

/** Every line of every file that is text, in parts that overlap. Bytes, as latin1. */
async function* treeText({ place, commit }: BaseTree, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
  let before = ''
  try {
    for await (const chunk of streamGit(place, ['grep', '-I', '-h', '--no-color', '-e', '', commit], { signal })) {
      const part = before + chunk.toString('latin1')
      yield part
      before = part.slice(-OVERLAP)
    }
  } catch (error) {
    // It ends so, and says nothing, where no file has a line.
    if (!(error instanceof GitFailed) || error.stderr !== '' || error.timedOut) throw error
  }
}
