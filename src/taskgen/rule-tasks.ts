import type { PublishedPackage } from '../grading/languages/language.ts'
import type { EnvRecipe } from '../grading/languages/recipe.ts'
import type { HiddenTests, TreeFacts } from '../grading/suite.ts'
import { serveTasks } from '../platform/threads.ts'
import { listOwnPackages } from './environment/build-environment.ts'
import { type CiServices, readCiServices } from './environment/ci-services.ts'
import { detectOlderRecipe, detectRecipe } from './environment/propose-recipe.ts'
import { listVariants, type SolutionVariant, type VariantLimits } from './execution/solution-variants.ts'
import { listSymbolCandidates } from './lint/exposed-symbols.ts'
import { listTestAssertions, type TestAssertion } from './review/test-assertions.ts'
import type { StageRejection } from './stage-result.ts'

/** Tasks of the threads that apply rules to files of untrusted repositories. */
const tasks = { inspectTree, deriveVariants, listSymbolCandidates, listAssertions }
export type RuleTasks = typeof tasks

serveTasks(tasks)

type TreeInspection = {
  recipe: EnvRecipe | StageRejection
  /** Recipe with an older runtime, if the tree is older than the runtimes of the base images. */
  olderRecipe: EnvRecipe | undefined
  services: CiServices
  /** Packages that the repository publishes. */
  ownPackages: PublishedPackage[]
}

/** Determines from the files of a tree how it is built, and what it needs and publishes. */
function inspectTree({ base, head, tests }: { base: TreeFacts; head: TreeFacts; tests: string[] }): TreeInspection {
  const recipe = detectRecipe(base, tests, head)
  const olderRecipe = detectOlderRecipe(base, tests, head)
  return { recipe, olderRecipe, services: readCiServices(base), ownPackages: listOwnPackages(base) }
}

function deriveVariants({ source, limits }: { source: string; limits: VariantLimits }): SolutionVariant[] {
  return listVariants(source, limits)
}

type AssertionsInput = { hidden: HiddenTests; failToPass: readonly string[] }

function listAssertions({ hidden, failToPass }: AssertionsInput): TestAssertion[] {
  return listTestAssertions(hidden, failToPass)
}
