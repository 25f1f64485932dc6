import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { PublishedPackage } from '../../../grading/languages/language.ts'
import { findRunner, runners } from '../../../grading/languages/languages.ts'
import type { EnvRecipe } from '../../../grading/languages/recipe.ts'
import { addServices, planServices } from '../../../grading/services/services.ts'
import type { Image } from '../../../sandboxes/sandbox.ts'
import type { SplitCommit } from '../../candidates/split-commit.ts'
import { buildEnvironment } from '../../environment/build-environment.ts'
import { checkHealth } from '../../environment/check-health.ts'
import type { CiServices } from '../../environment/ci-services.ts'
import { bases, findRecipeFault } from '../../environment/dockerfile.ts'
import { lintRecipe, proposeRecipe, type RecipeFacts } from '../../environment/propose-recipe.ts'
import { listLfsPointers, readTree } from '../../environment/read-tree.ts'
import { scanImage } from '../../environment/scan-image.ts'
import { writeEnvironment } from '../../environment/write-environment.ts'
import { planRuns } from '../../execution/plan-runs.ts'
import { RECIPE_LIMITS } from '../../models/stage-model.ts'
import { applyRules } from '../../rule-threads.ts'
import { done, reject, type StageRejection, type StageResult, withEvidence } from '../../stage-result.ts'
import type { CandidateState, Stage, StageContext, StageDone } from '../stage.ts'
import { type BaseFiles, readBaseFiles, readChange, StoredRecipe, toJson } from './candidate-inputs.ts'

/** Builds an image in which the tests of the base run. A model proposes a recipe only if the rules fail. */
export const environmentStage: Stage = {
  version: 10,
  needs: ['sandbox', 'author'],
  cacheInputs: ({ candidate: { base, head }, generation: { sandbox, authorModel } }) => [
    base,
    head,
    sandbox,
    authorModel,
  ],
  async run(state, context, signal) {
    const base = await readBaseFiles(state, context, signal)
    if (base.kind !== 'done') return base
    const change = await readChange(state, context, signal)
    const { tree, submodules } = base.value
    const { location } = await context.repository()
    const pointers = await listLfsPointers(location, tree.entries, signal)
    const headTree = await readTree(await context.repository(), state.candidate.head, signal)
    if (headTree.kind !== 'done') return headTree
    const facts = { base: tree.facts, head: headTree.value.facts, tests: listTestPaths(change) }
    const inspected = await applyRules('inspectTree', facts, context.workspaceId)
    if (inspected.kind !== 'done') return inspected
    const { recipe: detected, olderRecipe, services, ownPackages } = inspected.value
    const attempt = { state, context, signal, tree, submodules, change, services, ownPackages, pointers }
    const isUndetected = 'kind' in detected
    const recipe = isUndetected ? null : detected
    const known = await tryKnownRecipe(attempt, recipe)
    if (known) return known
    const first = isUndetected ? detected : await tryRecipe(attempt, detected, 'rules')
    const older = await tryOlderRecipe(attempt, first, olderRecipe)
    const result = older ?? (await repairEnvironment(attempt, first, recipe))
    return attributeToMissingParts(result, { unsupported: services.unsupported, pointers })
  },
}

/** Input of every attempt to build the environment. */
type BuildAttempt = BaseFiles & {
  state: CandidateState
  context: StageContext
  signal: AbortSignal
  change: SplitCommit
  services: CiServices
  /** Packages that the repository publishes. */
  ownPackages: readonly PublishedPackage[]
  /** Files whose content is in Git LFS. */
  pointers: readonly string[]
}

const listTestPaths = ({ hidden }: SplitCommit): string[] => hidden.files.map(({ path }) => path)

/**
 * Tries a recipe that a model proposed for an earlier candidate and that worked there. It is stored under the recipe that
 * the rules detected, so that candidates with the same build configuration share it.
 */
async function tryKnownRecipe(
  attempt: BuildAttempt,
  detected: EnvRecipe | null,
): Promise<StageResult<StageDone> | undefined> {
  const stored = StoredRecipe.safeParse(await attempt.context.recipes.find(toRecipeKey(detected))).data
  if (!stored || lintRecipe(stored, toRecipeFacts(attempt)).length > 0) return undefined
  const result = await tryRecipe(attempt, stored, 'model')
  return result.kind === 'rejected' ? undefined : result
}

/** Returns the key of a stored recipe. Removes dates, which differ from month to month and do not change how a tree is built. */
const toRecipeKey = (detected: EnvRecipe | null): string =>
  JSON.stringify(detected).replaceAll(/\d{4}-\d{2}-\d{2}/g, '')

/** Rejections for which another recipe may help. */
const REPAIRABLE_REASONS = ['unsupported_runner', 'env_build_failed', 'suite_unhealthy']

const isRepairable = (result: StageResult<StageDone>): result is StageRejection =>
  result.kind === 'rejected' && !result.isLoadSensitive && REPAIRABLE_REASONS.includes(result.reason)

/**
 * Tries the recipe with an older runtime after the first recipe has failed. Returns undefined if there is none, if it fails
 * too, or if its base image is unavailable: that does not defer the candidate.
 */
async function tryOlderRecipe(
  attempt: BuildAttempt,
  first: StageResult<StageDone>,
  older: EnvRecipe | undefined,
): Promise<StageResult<StageDone> | undefined> {
  if (!older || !isRepairable(first)) return undefined
  const result = await tryRecipe(attempt, older, 'rules')
  const isMissing = result.kind === 'deferred' && result.reason === 'config'
  const isFailed = result.kind === 'rejected' && !result.isLoadSensitive
  return isMissing || isFailed ? undefined : result
}

/** Parts that the tests need and the image lacks: services that the CI file declares, and contents of files in Git LFS. */
type MissingParts = { unsupported: readonly string[]; pointers: readonly string[] }

/** If services or file contents are missing, makes them the reason of a rejection for failing tests. */
export function attributeToMissingParts(result: StageResult<StageDone>, missing: MissingParts): StageResult<StageDone> {
  const isFailure = result.kind === 'rejected' && ['suite_unhealthy', 'needs_network'].includes(result.reason)
  if (!isFailure || result.isLoadSensitive) return result
  const [first] = listMissingReasons(missing)
  return first ? reject(first.reason, `${first.detail}\n\n${result.detail}`, result.evidence) : result
}

const POINTERS_SHOWN = 5

function listMissingReasons({ unsupported, pointers }: MissingParts): { reason: string; detail: string }[] {
  const services = `The CI file declares services that are not available. ${unsupported.join('; ')}`
  const paths = pointers.slice(0, POINTERS_SHOWN).map((path) => JSON.stringify(path))
  const files = `The content of ${pointers.length} files is in Git LFS and not in the image, such as ${paths.join(', ')}.`
  return [
    ...(unsupported.length === 0 ? [] : [{ reason: 'unsupported_service', detail: services }]),
    ...(pointers.length === 0 ? [] : [{ reason: 'lfs_content_missing', detail: files }]),
  ]
}

/** Asks a model for a recipe if the rules failed. If that fails too, the original rejection stands. */
async function repairEnvironment(
  attempt: BuildAttempt,
  first: StageResult<StageDone>,
  recipe: EnvRecipe | null,
): Promise<StageResult<StageDone>> {
  if (!isRepairable(first)) return first
  const proposed = await propose(attempt, first, recipe)
  if (proposed.kind === 'deferred') return proposed
  const second = proposed.kind === 'done' ? await tryRecipe(attempt, proposed.value, 'model') : proposed
  if (proposed.kind === 'done' && second.kind === 'done') {
    await attempt.context.recipes.save(toRecipeKey(recipe), toJson(proposed.value))
  }
  if (second.kind !== 'rejected') return second
  const evidence = { rules: first.evidence ?? null, model: second.evidence ?? null }
  return reject(first.reason, `${first.detail}\n\nThe recipe of a model failed too: ${second.detail}`, evidence)
}

async function propose(attempt: BuildAttempt, first: StageRejection, recipe: EnvRecipe | null) {
  const { context, signal } = attempt
  const { facts } = attempt.tree
  await using model = await context.model('author', RECIPE_LIMITS)
  const files = [...facts.texts].map(([path, text]) => ({ path, text }))
  const tried = recipe && { recipe, error: first.detail }
  // Awaited here: the model is closed when this function is left.
  return await proposeRecipe(model, { files, tried, facts: toRecipeFacts(attempt) }, signal)
}

function toRecipeFacts({ tree: { facts }, ownPackages }: BuildAttempt): RecipeFacts {
  const names = ownPackages.map(({ name }) => name.slice(name.indexOf(':') + 1))
  return { bases, runners: runners.map(({ id }) => id), paths: facts.paths, ownPackages: names }
}

type RecipeSource = 'rules' | 'model'

/** Builds the image of a recipe, searches it for the solution, and runs the tests of the base in it. */
async function tryRecipe(
  attempt: BuildAttempt,
  recipeWithoutServices: EnvRecipe,
  foundBy: RecipeSource,
): Promise<StageResult<StageDone>> {
  const {
    change,
    context,
    signal,
    services: { uses, env, unsupported },
  } = attempt
  const recipe = addServices(recipeWithoutServices, uses, env)
  const services = uses.length === 0 ? undefined : planServices(uses)
  const runner = findRunner(recipe.runner)
  if (!runner) return reject('unsupported_runner', `Unknown runner ${recipe.runner}`)
  const fault = findRecipeFault(recipe)
  if (fault) return reject('env_build_failed', fault)
  const provider = context.provider()
  const built = await prepareImage(attempt, recipe)
  if (built.kind !== 'done') return built
  const { image, profile, dockerfile } = built.value
  const declared = { started: uses.map(({ service, image, port }) => ({ service, image, port })), unsupported }
  const recipeEvidence = { foundBy, profile, dockerfile, runner: runner.name, services: declared }
  const solution = { ...change, ownPackages: attempt.ownPackages }
  const leakScan = withEvidence(await scanImage(provider, image, solution, signal), recipeEvidence)
  if (leakScan.kind !== 'done') return leakScan
  const input = { image, runner: runner.id, prepare: runner.prepare, services, folder: context.folder }
  const health = withEvidence(await checkHealth(provider, input, signal), recipeEvidence)
  if (health.kind !== 'done') return health
  const plan = planRuns({ runner, hidden: change.hidden, suiteCpuSeconds: health.value.cpuSeconds, services })
  const evidence = {
    ...recipeEvidence,
    base: await describeBase(attempt, recipe),
    image: image.digest,
    health: health.value,
  }
  const concerns = [
    ...(foundBy === 'model' ? ['The recipe of the environment was proposed by a model.'] : []),
    ...unsupported.map((service) => `Tests of a service that is not available are left out: ${service}.`),
    ...(attempt.pointers.length === 0 ? [] : [`Files in Git LFS have no content: ${attempt.pointers.length}.`]),
  ]
  return done({ output: toJson({ recipe, plan }), evidence: toJson(evidence), concerns })
}

const BASE_TIMEOUT_SEC = 60

/** Describes the base image, so that it can be found again when its name refers to another one. */
async function describeBase({ context, signal }: BuildAttempt, { base: name }: EnvRecipe) {
  const options = { signal, timeoutSec: BASE_TIMEOUT_SEC, onLog: () => {} }
  const base = await context.provider().prepare({ kind: 'prebuilt', name, folder: null, workdir: null }, options)
  return { name, image: base.digest, registryName: base.registryName ?? null }
}

type PreparedImage = { image: Image; folder: string; profile: string; dockerfile: string }

/** Prepares the image. It is built once per content, so that later stages find it. */
export async function prepareImage(
  { context, tree, submodules, signal }: Pick<BuildAttempt, 'context' | 'tree' | 'submodules' | 'signal'>,
  recipe: EnvRecipe,
): Promise<StageResult<PreparedImage>> {
  const { location } = await context.repository()
  const folder = await mkdtemp(join(context.folder, 'environment-'))
  const { profile, dockerfile } = await writeEnvironment(folder, { recipe, location, tree, submodules }, signal)
  const built = await buildEnvironment(context.provider(), { folder, recipe }, signal)
  const image = withEvidence(built, { profile, dockerfile, runner: recipe.runner })
  return image.kind === 'done' ? done({ image: image.value, folder, profile, dockerfile }) : image
}
