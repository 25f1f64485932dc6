import { readBlobs } from '../../../platform/git/git.ts'
import { parsePatch } from '../../candidates/read-diffs.ts'
import { readTree } from '../../environment/read-tree.ts'
import { trySolution } from '../../execution/try-variants.ts'
import { VERIFIER_LIMITS } from '../../models/stage-model.ts'
import type { SolutionFile } from '../../review/edit-solution.ts'
import { reviewTask } from '../../review/review.ts'
import { challengeTask, decodeLatin1 } from '../../review/wrong-solution.ts'
import { done, reject } from '../../stage-result.ts'
import type { CandidateState, Stage, StageContext } from '../stage.ts'
import {
  instructionText,
  parseEnvironment,
  parseExecution,
  parseInstruction,
  readBase,
  readChange,
  toJson,
} from './candidate-inputs.ts'
import { prepareImage } from './environment.ts'

/**
 * A second model reviews whether a solver of the instruction will pass the tests, and then looks for a wrong solution
 * that passes them.
 */
export const reviewStage: Stage = {
  version: 4,
  needs: ['sandbox', 'verifier'],
  cacheInputs: ({ files, outputs, generation: { authorModel, verifierModel, reasoning, sandbox } }) => [
    files?.digest ?? null,
    outputs.execution ?? null,
    authorModel,
    verifierModel,
    reasoning,
    sandbox,
  ],
  async run(state, context, signal) {
    const { source, hidden } = await readChange(state, context, signal)
    const { lists, survivors } = parseExecution(state)
    const instruction = instructionText(state)
    const files = await readChangedFiles(state, context, source, signal)
    await using model = await context.model('verifier', VERIFIER_LIMITS)
    const author = {
      provider: state.generation.authorModel.split('/')[0] ?? '',
      name: parseInstruction(state).author,
    }
    const base = files.flatMap(({ path, before }) => (before === null ? [] : [{ path, text: decodeLatin1(before) }]))
    const input = { instruction, hidden, failToPass: lists.failToPass, source, base, author }
    const verdict = await reviewTask(model, { ...input, workspaceId: context.workspaceId }, signal)
    if (verdict.kind !== 'done') return verdict
    const run = (patch: string) => runWrongSolution(state, context, { patch, hidden }, signal)
    const challenged = await challengeTask(model, { instruction, hidden, source, files, survivors }, run, signal)
    const reviewed = { ...verdict.value, bill: await model.bill() }
    if (challenged.kind === 'rejected')
      return reject(challenged.reason, challenged.detail, { ...reviewed, ...Object(challenged.evidence) })
    if (challenged.kind === 'deferred') return challenged
    const { minutes, flags } = verdict.value
    const concerns = [
      ...flags.map(
        () => 'The author and verifier models are from the same provider and may overlook the same mistakes.',
      ),
      ...(challenged.value.verdict === 'unusable'
        ? ['The verifier model gave no usable answer when it was asked for a wrong solution that passes.']
        : []),
    ]
    return done({ output: { minutes }, evidence: toJson({ ...reviewed, challenge: challenged.value }), concerns })
  },
}

type WrongSolutionRun = { patch: string } & Pick<Parameters<typeof trySolution>[1], 'hidden'>

/** Runs a solution in the image of the execution, which usually still exists. */
async function runWrongSolution(
  state: CandidateState,
  context: StageContext,
  { patch, hidden }: WrongSolutionRun,
  signal: AbortSignal,
): Promise<boolean> {
  const { lists, plan } = parseExecution(state)
  const base = await readBase(state, context, signal)
  const prepared = await prepareImage({ context, signal, ...base }, parseEnvironment(state).recipe)
  if (prepared.kind !== 'done') throw new Error(`The environment cannot be built again: ${prepared.detail}`)
  const { image } = prepared.value
  const input = { image, submission: patch, hidden, plan, folder: context.folder, lists }
  return (await trySolution(context.provider(), input, signal)).isPassed
}

const FILE_BYTES_MAX = 200_000

/** Reads the files that the change touches, before and after it. */
async function readChangedFiles(
  state: CandidateState,
  context: StageContext,
  source: string,
  signal: AbortSignal,
): Promise<SolutionFile[]> {
  const { base, head } = state.candidate
  const paths = parsePatch(source).map(({ path }) => path)
  const [before, after] = [await readFiles(context, base, paths, signal), await readFiles(context, head, paths, signal)]
  return paths.map((path) => ({ path, before: before.get(path) ?? null, after: after.get(path) ?? null }))
}

/** Reads files of a commit, in latin1. */
async function readFiles(context: StageContext, commit: string, paths: readonly string[], signal: AbortSignal) {
  const repository = await context.repository()
  const tree = await readTree(repository, commit, signal)
  if (tree.kind !== 'done') throw new Error(`The tree of ${commit} can no longer be read: ${tree.detail}`)
  const wanted = new Set(paths)
  const files = tree.value.entries.filter(
    ({ path, kind, size }) => wanted.has(path) && kind !== 'link' && size <= FILE_BYTES_MAX,
  )
  const texts = new Map<string, string>()
  for await (const { path, content } of readBlobs(repository.location, files, { signal, bytesMax: FILE_BYTES_MAX }))
    texts.set(path, content.toString('latin1'))
  return texts
}
