import { readBlobs } from '../../../platform/git/blobs.ts'
import { patchedFiles } from '../../lint/patch-files.ts'
import { VERIFIER_LIMITS } from '../../models/stage-model.ts'
import { verify } from '../../review/review.ts'
import { done } from '../../stage-result.ts'
import type { Making, Stage, StageTools } from '../stage.ts'
import { readBase, readLanding } from './candidate-inputs.ts'
import { textOf } from './lint.ts'
import { executionIn, instructionIn, plain } from './outputs.ts'

/** Whether who solves what the instruction says will pass the tests, by readers who did not write it. */
export const reviewStage: Stage = {
  version: 1,
  needs: ['verifier'],
  reads: ({ files, generation: { authorModel, verifierModel, reasoning } }) => [
    ...[files?.digest ?? null, authorModel, verifierModel, reasoning],
  ],
  async run(making, tools, signal) {
    const { source, hidden } = await readLanding(making, tools, signal)
    const { failToPass } = executionIn(making).lists
    const base = await touchedFiles(making, tools, source, signal)
    await using model = await tools.model('verifier', VERIFIER_LIMITS)
    const author = { provider: making.generation.authorModel.split('/')[0] ?? '', name: instructionIn(making).author }
    const order = { instruction: textOf(making), hidden, failToPass, source, base, author }
    const verdict = await verify(model, order, signal)
    if (verdict.kind !== 'done') return verdict
    const { minutes, flags } = verdict.value
    const concerns = flags.map(() => 'Author and verifier are of one house: the same mistakes may be overlooked.')
    return done({ made: { minutes }, evidence: plain(verdict.value), concerns })
  },
}

const FILE_BYTES_MAX = 200_000

/** What the change touches, as it was. */
async function touchedFiles(making: Making, tools: StageTools, source: string, signal: AbortSignal) {
  const { entries } = await readBase(making, tools, signal)
  const touched = new Set(patchedFiles(source).map(({ path }) => path))
  const files = entries.filter(({ path, kind, size }) => touched.has(path) && kind !== 'link' && size <= FILE_BYTES_MAX)
  const { place } = await tools.repository()
  const found: { path: string; text: string }[] = []
  for await (const { path, content } of readBlobs(place, files, { signal, bytesMax: FILE_BYTES_MAX })) {
    found.push({ path, text: content.toString() })
  }
  return found
}
