import { readBlobs } from '../../../platform/git/blobs.ts'
import { parsePatch } from '../../lint/patch-files.ts'
import { VERIFIER_LIMITS } from '../../models/stage-model.ts'
import { reviewTask } from '../../review/review.ts'
import { done } from '../../stage-result.ts'
import type { CandidateState, Stage, StageContext } from '../stage.ts'
import { readBase, readChange } from './candidate-inputs.ts'
import { instructionText } from './lint.ts'
import { parseExecution, parseInstruction, toJson } from './outputs.ts'

/** A second model reviews whether a solver of the instruction will pass the tests. */
export const reviewStage: Stage = {
  version: 1,
  needs: ['verifier'],
  reads: ({ files, generation: { authorModel, verifierModel, reasoning } }) => [
    files?.digest ?? null,
    authorModel,
    verifierModel,
    reasoning,
  ],
  async run(making, tools, signal) {
    const { source, hidden } = await readChange(making, tools, signal)
    const { failToPass } = parseExecution(making).lists
    const base = await touchedFiles(making, tools, source, signal)
    await using model = await tools.model('verifier', VERIFIER_LIMITS)
    const author = {
      provider: making.generation.authorModel.split('/')[0] ?? '',
      name: parseInstruction(making).author,
    }
    const order = { instruction: instructionText(making), hidden, failToPass, source, base, author }
    const verdict = await reviewTask(model, order, signal)
    if (verdict.kind !== 'done') return verdict
    const { minutes, flags } = verdict.value
    const concerns = flags.map(() => 'Author and verifier are of one house: the same mistakes may be overlooked.')
    return done({ made: { minutes }, evidence: toJson(verdict.value), concerns })
  },
}

const FILE_BYTES_MAX = 200_000

/** Reads the base version of the files that the change touches. */
async function touchedFiles(making: CandidateState, tools: StageContext, source: string, signal: AbortSignal) {
  const { entries } = await readBase(making, tools, signal)
  const touched = new Set(parsePatch(source).map(({ path }) => path))
  const files = entries.filter(({ path, kind, size }) => touched.has(path) && kind !== 'link' && size <= FILE_BYTES_MAX)
  const { place } = await tools.repository()
  const found: { path: string; text: string }[] = []
  for await (const { path, content } of readBlobs(place, files, { signal, bytesMax: FILE_BYTES_MAX })) {
    found.push({ path, text: content.toString() })
  }
  return found
}
