import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { assembleTask } from '../../assembly/assemble-task.ts'
import { DEFAULT_RESOURCES } from '../../assembly/generated-task.ts'
import { listExposedSymbols, writeInstruction } from '../../authoring/author.ts'
import { splitCommit, widenSource } from '../../candidates/split-commit.ts'
import { readTree } from '../../environment/read-tree.ts'
import { writeEnvironment } from '../../environment/write-environment.ts'
import { execute } from '../../execution/execute.ts'
import { listExecutionConcerns } from '../../execution/judge-runs.ts'
import { isBlocking, lintInstruction } from '../../lint/lint-instruction.ts'
import { AUTHOR_LIMITS } from '../../models/stage-model.ts'
import { estimateDifficulty } from '../../review/review.ts'
import { done, reject, type StageResult } from '../../stage-result.ts'
import { FULL_COUNTS, type TrialCounts, validateTask } from '../../validation/validate-task.ts'
import { type CandidateState, STAGES, type Stage, type Stages } from '../stage.ts'
import {
  instructionText,
  loadLintFacts,
  parseEnvironment,
  parseExecution,
  parseInstruction,
  parseReview,
  readBase,
  readBaseFiles,
  readChange,
  toJson,
} from './candidate-inputs.ts'
import { environmentStage, prepareImage } from './environment.ts'
import { reviewStage } from './review.ts'

/** Returns the implementations of all stages. Tests replace some of them. */
export const realStages = (counts?: TrialCounts): Stages => ({
  split: splitStage,
  environment: environmentStage,
  execution: executionStage,
  authoring: authoringStage,
  lint: lintStage,
  assembly: assemblyStage,
  validation: validationStage(counts),
  review: reviewStage,
  difficulty: difficultyStage,
})

/**
 * Splits the change into source, tests and the rest, without loss. Also fetches all files that later stages read, with
 * submodules: a server that answers slowly would take the slot of a sandbox there.
 */
export const splitStage: Stage = {
  version: 2,
  needs: [],
  cacheInputs: ({ candidate: { base, head } }) => [base, head],
  async run(state, context, signal) {
    const { candidate } = state
    const repository = await context.repository()
    const split = await splitCommit(repository, candidate, signal)
    if (split.kind !== 'done') return split
    const base = await readBaseFiles(state, context, signal)
    if (base.kind !== 'done') return base
    const head = await readTree(repository, candidate.head, signal)
    if (head.kind !== 'done') return head
    const { baseTree, headTree, hidden, source } = split.value
    const tests = [...hidden.files.map(({ path }) => path), ...hidden.deleted]
    return done({ output: { baseTree, headTree }, evidence: { baseTree, headTree, tests, patch: source } })
  },
}

/** Runs the tests in fresh sandboxes and determines the fail-to-pass and pass-to-pass tests and the guards. */
const executionStage: Stage = {
  version: 8,
  needs: ['sandbox'],
  cacheInputs: ({ candidate: { base, head }, generation, outputs }) => [
    base,
    head,
    generation.sandbox,
    outputs.environment ?? null,
  ],
  async run(state, context, signal) {
    const { recipe, plan } = parseEnvironment(state)
    const attempt = { context, signal, ...(await readBase(state, context, signal)) }
    const prepared = await prepareImage(attempt, recipe)
    if (prepared.kind !== 'done') return prepared
    const change = await readChange(state, context, signal)
    const { source, hidden } = change
    const { location } = await context.repository()
    const wideSource = await widenSource(location, change, signal)
    const { folder, workspaceId } = context
    const input = { image: prepared.value.image, source, wideSource, hidden, plan, folder, workspaceId }
    const executed = await execute(context.provider(), input, signal)
    if (executed.kind !== 'done') return executed
    const { runs, unstable, ablation, medianSec, ...result } = executed.value
    const { lists, messages, buildErrors } = result
    const evidence = { ...lists, messages, buildErrors, runs, unstable, ablation, medianSec }
    const fixedRuns = runs.filter(({ variant, daysAhead }) => variant === 'fixed' && daysAhead === null).length
    const output = { ...result, survivors: ablation.survivors, fixedRuns }
    return done({ output: toJson(output), evidence: toJson(evidence), concerns: listExecutionConcerns(lists) })
  },
}

/** Checks the instruction, whether a model or a person wrote it. */
const lintStage: Stage = {
  version: 2,
  needs: [],
  cacheInputs: (state) => {
    const { base, head, body, issues } = state.candidate
    return [base, head, body, issues, state.outputs.execution ?? null, instructionText(state)]
  },
  async run(state, context, signal) {
    const { failToPass } = parseExecution(state).lists
    const change = await readChange(state, context, signal)
    const instructionContext = { change, failToPass, exposed: parseInstruction(state).pinned }
    const findings = lintInstruction(
      instructionText(state),
      await loadLintFacts(state, context, instructionContext, signal),
    )
    const [first] = findings.filter(isBlocking)
    if (first) return reject(first.rule, `${first.detail} ${first.excerpt}`.trim(), { findings })
    return done({ output: null, evidence: toJson({ findings }) })
  },
}

/**
 * Lets the author model write the instruction. The symbols that it must name are determined by code, not by the model.
 */
export const authoringStage: Stage = {
  version: 4,
  needs: ['author'],
  cacheInputs: ({
    candidate: { base, head, title, body, issues },
    generation: { authorModel, reasoning },
    outputs,
  }) => [base, head, title, body, issues, authorModel, reasoning, outputs.execution ?? null],
  async run(state, context, signal) {
    const { candidate } = state
    const { lists, messages, failsByAssertion, buildErrors, newTests, plan } = parseExecution(state)
    const change = await readChange(state, context, signal)
    const { location } = await context.repository()
    const base = { location, commit: candidate.base, workspaceId: context.workspaceId }
    const listed = await listExposedSymbols(base, change, signal)
    if (listed.kind !== 'done') return listed
    const exposed = listed.value
    if (!failsByAssertion && exposed.length === 0)
      return reject(
        'error_only_f2p',
        'The fail-to-pass tests fail only because of a missing symbol, and that symbol could not be determined.',
      )
    const instructionContext = { change, exposed, failToPass: lists.failToPass }
    const facts = await loadLintFacts(state, context, instructionContext, signal)
    await using model = await context.model('author', AUTHOR_LIMITS)
    const servers = plan.services?.names
    const input = { text: candidate, messages, buildErrors, newTests, facts, servers }
    const written = await writeInstruction(model, input, signal)
    if (written.kind !== 'done') return written
    const { draft, markdown, specSource, warnings, rounds, bill } = written.value
    return done({
      output: toJson({ title: draft.title, markdown, pinned: exposed, author: model.name }),
      evidence: toJson({ specSource, rounds, bill, warnings, pinned: exposed }),
      concerns: warnings.map(({ detail, excerpt }) => `${detail} ${excerpt}`.trim()),
      title: draft.title,
    })
  },
}

const TIMEOUTS = { buildTimeoutSec: 1200, agentTimeoutSec: 1800 }

/** Organisation in the name of generated tasks. */
const ORGANISATION = 'made'

/** Writes the task's files in Harbor's format, with the environment in which the tests ran. */
const assemblyStage: Stage = {
  version: 5,
  needs: [],
  cacheInputs: (state) => [
    state.taskId,
    state.candidate.base,
    state.candidate.head,
    state.candidate.difficulty,
    instructionText(state),
    state.outputs.environment ?? null,
    state.outputs.execution ?? null,
  ],
  async run(state, context, signal) {
    const { title } = parseInstruction(state)
    const { lists, plan } = parseExecution(state)
    const { recipe } = parseEnvironment(state)
    const { location } = await context.repository()
    const environmentFolder = join(context.folder, 'environment')
    const base = await readBase(state, context, signal)
    await writeEnvironment(environmentFolder, { recipe, location, ...base }, signal)
    const { source, hidden } = await readChange(state, context, signal)
    const assembled = await assembleTask(context.target, {
      environmentFolder,
      source,
      hidden,
      lists,
      plan,
      title,
      markdown: instructionText(state),
      name: `${ORGANISATION}/${state.taskId}`,
      difficulty: state.candidate.difficulty,
      ...TIMEOUTS,
      resources: DEFAULT_RESOURCES,
      buildHosts: context.buildHosts,
    })
    return assembled.kind === 'done' ? done({ output: null, evidence: null }) : assembled
  },
}

/** Counts the runs of the execution stage that validation need not repeat: with the fix, in the same kind of sandbox. */
const countReusableRuns = (state: CandidateState): number =>
  state.generation.sandbox === state.generation.harborEnvironment ? parseExecution(state).fixedRuns : 0

/** Validates the finished files in the selected sandbox. The result does not depend on the instruction. */
const validationStage = (counts: TrialCounts = FULL_COUNTS): Stage => ({
  version: 7,
  needs: ['harbor'],
  cacheInputs: (state) => [
    state.files?.executableDigest ?? null,
    state.generation.harborEnvironment,
    { ...counts },
    countReusableRuns(state),
  ],
  async run(state, context, signal) {
    const { source } = await readChange(state, context, signal)
    const input = {
      folder: await context.files(),
      outputFolder: join(context.folder, 'output'),
      counts,
      source,
      lists: parseExecution(state).lists,
      executedRuns: countReusableRuns(state),
      exposed: parseInstruction(state).pinned,
    }
    const validated = await validateTask(context.provider(), input, signal)
    return validated.kind === 'done' ? done({ output: null, evidence: toJson(validated.value) }) : validated
  },
})

/** Estimates the difficulty from the size of the change and the reviews. */
const difficultyStage: Stage = {
  version: 1,
  needs: [],
  cacheInputs: ({ candidate: { difficulty }, outputs }) => [difficulty, outputs.review ?? null],
  async run(state) {
    const { minutes } = parseReview(state)
    const estimate = estimateDifficulty(state.candidate.difficulty, minutes)
    return done({ output: null, evidence: toJson({ ...estimate, minutes }), difficulty: estimate.final })
  },
}

/**
 * Waiting processes per processor, averaged over five minutes, above which timings are not evidence about a candidate.
 */
const BUSY_LOAD = 1.5
const RETRY_MS = 15 * 60_000

/** Returns stages that defer a candidate instead of rejecting it if the cause may be that this machine is busy. */
export function deferWhileBusy(stages: Stages, isBusy: () => boolean = isHostBusy): Stages {
  const wrap = (stage: Stage): Stage => ({
    ...stage,
    run: async (state, context, signal) => deferIfBusy(await stage.run(state, context, signal), isBusy()),
  })
  return Object.fromEntries(STAGES.map((name) => [name, wrap(stages[name])])) as Stages
}

/** Returns true if processes have been waiting for processors of this machine during the last minutes. */
export const isHostBusy = (load: number = loadavg()[1] ?? 0, processors: number = availableParallelism()): boolean =>
  load > processors * BUSY_LOAD

function deferIfBusy<T>(result: StageResult<T>, isBusy: boolean): StageResult<T> {
  if (result.kind !== 'rejected' || !result.isLoadSensitive || !isBusy) return result
  const detail = `The machine was too busy for a verdict. Retried when it is less busy. ${result.detail}`
  return { kind: 'deferred', reason: 'sandbox', detail, retryAfterMs: RETRY_MS }
}
