import {
  findLanguageOfRunner,
  findRunnerSetup,
  findSourceLanguage,
  runners,
} from '../../grading/languages/languages.ts'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'
import type { Runner } from '../../grading/runners/runner.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'

/**
 * How a tree is made ready, by what it says of itself. Where it has several runners, the one that can run the tests of
 * the pull request counts.
 */
export function detectRecipe(tree: TreeFacts, tests: readonly string[] = []): EnvRecipe | StageRejection {
  const fitting = runners.filter((runner) => runner.detect(tree))
  const runner = tests.length === 0 ? fitting[0] : selectRunner(fitting, tests)
  if (!runner) return reject('unsupported_runner', describeUnsupported(fitting))
  const setup = findRunnerSetup(runner.id)
  return setup?.buildRecipe(tree) ?? reject('unsupported_runner', `There is no recipe for ${runner.name}.`)
}

/** Falls back to the language of the test files for runners that cannot run single files. */
function selectRunner(fitting: readonly Runner[], tests: readonly string[]): Runner | undefined {
  const names = new Set(tests.map((path) => findSourceLanguage(path)?.name))
  return (
    fitting.find(({ isTarget }) => tests.some(isTarget)) ??
    fitting.find(({ id }) => findLanguageOfRunner(id)?.sources.some(({ name }) => names.has(name)))
  )
}

const describeUnsupported = (fitting: readonly Runner[]): string =>
  fitting.length === 0
    ? 'Nothing in the tree names a runner that is known here.'
    : `None of the tests can be run by ${fitting.map(({ name }) => name).join(' or ')}.`
