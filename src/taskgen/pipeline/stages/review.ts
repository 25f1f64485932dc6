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
  cacheInputs: ({ files, generation: { authorModel, verifierModel, reasoning } }) => [
    files?.digest ?? null,
    authorModel,
    verifierModel,
    reasoning,
  ],
  async run(state, context, signal) {
    const { source, hidden } = await readChange(state, context, signal)
    const { failToPass } = parseExecution(state).lists
    const base = await touchedFiles(state, context, source, signal)
    await using model = await context.model('verifier', VERIFIER_LIMITS)
    const author = {
      provider: state.generation.authorModel.split('/')[0] ?? '',
      name: parseInstruction(state).author,
    }
    const input = { instruction: instructionText(state), hidden, failToPass, source, base, author }
    const verdict = await reviewTask(model, input, signal)
    if (verdict.kind !== 'done') return verdict
    const { minutes, flags } = verdict.value
    const concerns = flags.map(() => 'Author and verifier are of one house: the same mistakes may be overlooked.')
    return done({ made: { minutes }, evidence: toJson(verdict.value), concerns })
  },
}

const FILE_BYTES_MAX = 200_000

/** Reads the base version of the files that the change touches. */
async function touchedFiles(state: CandidateState, context: StageContext, source: string, signal: AbortSignal) {
  const { entries } = await readBase(state, context, signal)
  const touched = new Set(parsePatch(source).map(({ path }) => path))
  const files = entries.filter(({ path, kind, size }) => touched.has(path) && kind !== 'link' && size <= FILE_BYTES_MAX)
  const { place } = await context.repository()
  const found: { path: string; text: string }[] = []
  for await (const { path, content } of readBlobs(place, files, { signal, bytesMax: FILE_BYTES_MAX })) {
    found.push({ path, text: content.toString() })
  }
  return found
}
