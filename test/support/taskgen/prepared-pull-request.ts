// Turns one pull request into an image of its base, with the functions of the stages.
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { EnvRecipe } from '../../../src/grading/languages/recipe.ts'
import { openClone } from '../../../src/repos/mirror/local-clone.ts'
import type { Image } from '../../../src/sandboxes/sandbox.ts'
import { type SplitCommit, splitCommit } from '../../../src/taskgen/candidates/split-commit.ts'
import { buildEnvironment, listOwnPackages } from '../../../src/taskgen/environment/build-environment.ts'
import { detectRecipe } from '../../../src/taskgen/environment/propose-recipe.ts'
import { type BaseTree, readTree } from '../../../src/taskgen/environment/read-tree.ts'
import { scanImage } from '../../../src/taskgen/environment/scan-image.ts'
import { writeEnvironment } from '../../../src/taskgen/environment/write-environment.ts'
import type { StageResult } from '../../../src/taskgen/stage-result.ts'
import { git, type HistoryCommit, writeHistory } from '../histories.ts'
import type { Builder } from './image-builders.ts'

export type PreparedPullRequest = {
  split: SplitCommit
  tree: BaseTree
  recipe: EnvRecipe
  folder: string
  image: StageResult<Image>
}

type FileEdits = Record<string, string | null>

const signal = new AbortController().signal

type PrepareOptions = {
  /** Changes the detected recipe, as a model would. */
  adapt?: (recipe: EnvRecipe) => EnvRecipe
  /** Day of the commits. */
  day?: string
  timeoutSec?: number
  onLog?: (line: string) => void
}

/** Builds a repository from a base and a change, and prepares its environment. */
export async function preparePullRequest(
  { provider, folder: top }: Builder,
  base: FileEdits,
  landed: FileEdits,
  { adapt = (recipe) => recipe, day = '2025-06-01', ...limits }: PrepareOptions = {},
): Promise<PreparedPullRequest> {
  const home = await mkdtemp(join(top, 'made-'))
  const repository = join(home, 'repository')
  const at = Date.parse(day) / 1000
  const changes: HistoryCommit[] = [
    { message: 'start', files: base, at },
    { message: 'Next (#1)', files: landed, at: at + 1 },
  ]
  await writeHistory(repository, changes)
  const [head, before] = [await git(repository, ['rev-parse', 'main']), await git(repository, ['rev-parse', 'main~1'])]
  await using clone = await openClone(repository, { signal })
  const { location } = clone
  const split = doneOf(await splitCommit({ location }, { base: before, head }, signal))
  const tree = doneOf(await readTree({ location }, before, signal))
  const landedTree = doneOf(await readTree({ location }, head, signal))
  const found = detectRecipe(
    tree.facts,
    split.hidden.files.map(({ path }) => path),
    landedTree.facts,
  )
  if ('kind' in found) throw new Error(JSON.stringify(found))
  const recipe = adapt(found)
  const folder = join(home, 'environment')
  await writeEnvironment(folder, { recipe, location, tree }, signal)
  const image = await buildEnvironment(provider, { ...limits, folder, recipe }, signal)
  return { split, tree, recipe, folder, image }
}

export const scan = ({ provider }: Builder, { image, split, tree }: PreparedPullRequest) =>
  scanImage(
    provider,
    doneOf(image),
    { ...split, ownPackages: listOwnPackages(tree.facts), baseTree: tree.tree },
    signal,
  )

export function doneOf<T>(result: StageResult<T>): T {
  if (result.kind === 'done') return result.value
  throw new Error(`${result.kind}: ${result.reason}\n${result.detail}`)
}
