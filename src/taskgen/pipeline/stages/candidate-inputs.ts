import { z } from 'zod'
import type { Json } from '../../../harnesses/json.ts'
import { runGit } from '../../../platform/git/git.ts'
import type { GitLocation } from '../../../platform/git/settings.ts'
import { type SplitCommit, splitCommit } from '../../candidates/split-commit.ts'
import { readSubmodules, type SubmoduleFiles } from '../../environment/read-submodules.ts'
import { type BaseTree, readTree } from '../../environment/read-tree.ts'
import type { LintFacts } from '../../lint/lint-instruction.ts'
import type { ExposedSymbol } from '../../lint/render-instruction.ts'
import { done, type StageResult } from '../../stage-result.ts'
import type { CandidateState, StageContext } from '../stage.ts'

/** Reads the change again from the mirror, so that it need not be stored. */
export const readChange = async (
  state: CandidateState,
  context: StageContext,
  signal: AbortSignal,
): Promise<SplitCommit> => requireDone(await splitCommit(await context.repository(), state.candidate, signal))

/** The tree before the change, with the files of its submodules. */
export type BaseFiles = { tree: BaseTree; submodules: readonly SubmoduleFiles[] }

/** Reads the base from the mirror and fetches its submodules. */
export async function readBaseFiles(
  state: CandidateState,
  context: StageContext,
  signal: AbortSignal,
): Promise<StageResult<BaseFiles>> {
  const repository = await context.repository()
  const tree = await readTree(repository, state.candidate.base, signal)
  if (tree.kind !== 'done') return tree
  const submodules = await readSubmodules(repository, tree.value, signal)
  return submodules.kind === 'done' ? done({ tree: tree.value, submodules: submodules.value }) : submodules
}

/** Reads the base again after the environment stage has accepted it. */
export const readBase = async (state: CandidateState, context: StageContext, signal: AbortSignal): Promise<BaseFiles> =>
  requireDone(await readBaseFiles(state, context, signal))

/** Returns the value of a step that an earlier stage has completed. */
function requireDone<T>(result: StageResult<T>): T {
  if (result.kind === 'done') return result.value
  throw new Error(`The change can no longer be read: ${result.detail}`)
}

type InstructionContext = { change: SplitCommit; exposed: readonly ExposedSymbol[]; failToPass: readonly string[] }

/** Loads the facts that an instruction is checked against. */
export async function loadLintFacts(
  { candidate }: CandidateState,
  context: StageContext,
  { change, exposed, failToPass }: InstructionContext,
  signal: AbortSignal,
): Promise<LintFacts> {
  const repository = await context.repository()
  const { authors, commits } = await readCommits(repository.location, candidate, signal)
  return {
    exposed,
    source: change.source,
    hidden: change.hidden,
    failToPass,
    authors,
    commits,
    upstream: repository.upstream,
    issueText: [candidate.body, ...candidate.issues.map(({ body }) => body)].join('\n'),
  }
}

const COMMITS_MAX = 200
/** Id, author name and author address, each on a line. */
const FIELDS_PER_COMMIT = 3

type CommitBounds = { base: string; head: string }

/** Reads authors and ids of the commits. */
async function readCommits(location: GitLocation, { base, head }: CommitBounds, signal: AbortSignal) {
  const args = ['log', `--max-count=${COMMITS_MAX}`, '--format=%H%n%an%n%ae', `${base}..${head}`]
  const lines = (await runGit(location, args, { signal })).toString().split('\n')
  const listField = (field: number) => lines.filter((line, index) => index % FIELDS_PER_COMMIT === field && line !== '')
  return { commits: listField(0), authors: [...new Set([...listField(1), ...listField(2)])] }
}

const Strings = z.array(z.string())
const TextsByName = z.record(z.string(), z.string())

/** A recipe in the stored output of the environment stage. What outputs do not contain is read again from the mirror. */
export const StoredRecipe = z.object({
  base: z.string(),
  aptPackages: Strings,
  env: TextsByName,
  toolchain: Strings.default([]),
  manifests: Strings,
  setup: Strings,
  build: Strings,
  runner: z.string(),
})

const Plan = z.object({
  runner: z.string(),
  prepare: Strings,
  targets: Strings,
  timeoutSec: z.number(),
  services: z.object({ names: Strings, script: z.string(), hosts: Strings }).optional(),
})

const EnvironmentOutput = z.object({ recipe: StoredRecipe, plan: Plan })

const Survivor = z.object({
  kind: z.enum(['part', 'mutant']),
  path: z.string(),
  line: z.number(),
  before: z.string(),
  after: z.string(),
})

const ExecutionOutput = z.object({
  lists: z.object({ failToPass: Strings, passToPass: Strings, guards: Strings.default([]) }),
  plan: Plan,
  messages: TextsByName,
  failsByAssertion: z.boolean(),
  buildErrors: Strings.default([]),
  newTests: Strings.default([]),
  survivors: z.array(Survivor).default([]),
  /** Runs with the fix and the real clock. All of them passed. */
  fixedRuns: z.number().default(0),
})

const StoredSymbol = z.object({
  kind: z.enum(['name', 'literal', 'path']),
  text: z.string(),
  signature: z.string().nullable(),
})
const AuthoringOutput = z.object({
  title: z.string(),
  markdown: z.string(),
  /** The exposed symbols, under the name that stored results have. */
  pinned: z.array(StoredSymbol),
  author: z.string(),
})

const ReviewOutput = z.object({ minutes: z.array(z.number()) })

export const parseEnvironment = ({ outputs }: CandidateState) => EnvironmentOutput.parse(outputs.environment)
export const parseExecution = ({ outputs }: CandidateState) => ExecutionOutput.parse(outputs.execution)
export const parseInstruction = ({ outputs }: CandidateState) => AuthoringOutput.parse(outputs.authoring)
export const parseReview = ({ outputs }: CandidateState) => ReviewOutput.parse(outputs.review)

/** Returns the text that agents receive. An instruction edited by a person takes precedence over that of the model. */
export const instructionText = (state: CandidateState): string => state.edited ?? parseInstruction(state).markdown

/** Converts to plain JSON as it will be stored. */
export const toJson = (value: object): Json => JSON.parse(JSON.stringify(value))
