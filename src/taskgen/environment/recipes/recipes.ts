import { cmake, go, gradle, maven, rust } from './compiled.ts'
import { node } from './node.ts'
import { python } from './python.ts'
import type { RecipeOf } from './recipe.ts'
import { php, ruby } from './scripted.ts'

type Ecosystem = {
  recipeOf: RecipeOf
  /** What a build leaves in the tree that nobody would commit. git is told, so that such a tree is clean. */
  artefacts: readonly string[]
  /** What a builder may tell the commands besides the usual variables of a proxy. It does not stay in the image. */
  args?: readonly string[]
}

const PYTHON: Ecosystem = { recipeOf: python, artefacts: ['__pycache__/', '*.egg-info/', '.eggs/', '.pytest_cache/'] }
const NODE: Ecosystem = { recipeOf: node, artefacts: ['node_modules/'] }
const JAVA = ['JAVA_TOOL_OPTIONS']

/** By the runner of its tests. */
export const ecosystems: Readonly<Record<string, Ecosystem>> = {
  ...{ pytest: PYTHON, unittest: PYTHON },
  ...{ jest: NODE, vitest: NODE, mocha: NODE, 'node-test': NODE },
  go: { recipeOf: go, artefacts: [] },
  cargo: { recipeOf: rust, artefacts: ['Cargo.lock'] },
  maven: { recipeOf: maven, artefacts: ['target/'], args: JAVA },
  gradle: { recipeOf: gradle, artefacts: ['build/', '.gradle/'], args: JAVA },
  ctest: { recipeOf: cmake, artefacts: ['/build/', '/Testing/'] },
  rspec: { recipeOf: ruby, artefacts: ['.bundle/', 'Gemfile.lock'] },
  phpunit: { recipeOf: php, artefacts: ['/vendor/', 'composer.lock', '.phpunit.result.cache'] },
}
