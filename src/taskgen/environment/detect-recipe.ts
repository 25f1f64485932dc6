import { languageOf } from '../../grading/languages.ts'
import type { Runner } from '../../grading/runners/runner.ts'
import { runners } from '../../grading/runners/runners.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'
import type { EnvRecipe } from './recipes/recipe.ts'
import { ecosystems } from './recipes/recipes.ts'

/**
 * How a tree is made ready, by what it says of itself. Where it has several runners, the one that can run the tests of
 * the pull request counts.
 */
export function detectRecipe(tree: TreeFacts, tests: readonly string[] = []): EnvRecipe | StageRejection {
  const fitting = runners.filter((runner) => runner.detect(tree))
  const runner = tests.length === 0 ? fitting[0] : chosen(fitting, tests)
  if (!runner) return reject('unsupported_runner', unsupported(fitting))
  const ecosystem = ecosystems[runner.id]
  return ecosystem?.recipeOf(tree, runner.id) ?? reject('unsupported_runner', `There is no recipe for ${runner.name}.`)
}

const LANGUAGES: Readonly<Record<Runner['ecosystem'], readonly string[]>> = {
  ...{ python: ['python'], node: ['javascript', 'typescript'], go: ['go'], rust: ['rust'], java: ['java', 'kotlin'] },
  ...{ cpp: ['c', 'cpp'], ruby: ['ruby'], php: ['php'] },
}

/** Some runners know no files, only all tests there are; then the language tells. */
const chosen = (fitting: readonly Runner[], tests: readonly string[]): Runner | undefined =>
  fitting.find(({ isTarget }) => tests.some(isTarget)) ??
  fitting.find(({ ecosystem }) => tests.some((path) => LANGUAGES[ecosystem].includes(languageOf(path) ?? '')))

const unsupported = (fitting: readonly Runner[]): string =>
  fitting.length === 0
    ? 'Nothing in the tree names a runner that is known here.'
    : `None of the tests can be run by ${fitting.map(({ name }) => name).join(' or ')}.`
