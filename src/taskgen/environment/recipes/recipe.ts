import type { TreeFacts } from '../../../grading/suite.ts'

/**
 * How a tree is made ready for its tests. Found by rules, or by a model where rules fail; either way we replay it, and what
 * it says of itself counts for nothing. Shell lines run as root in the repository.
 */
export type EnvRecipe = {
  /** A base image of our table. */
  base: string
  aptPackages: string[]
  env: Record<string, string>
  /** Files that `setup` needs. They are there before the rest of the tree, so that their layer is built once for all. */
  manifests: string[]
  /** With the manifests alone, and with a network. */
  setup: string[]
  /** With the whole tree, and with a network. */
  build: string[]
  runner: string
}

/** What is installed lies here, outside of the repository, where any user may read and write it. */
export const DEPS = '/opt/deps'

export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** How one ecosystem is made ready. The runner is found before. */
export type RecipeOf = (tree: TreeFacts, runner: string) => EnvRecipe

const TRIXIE = 'debian:trixie-slim'

/** What a rule may leave out. */
export const recipe = (parts: Partial<EnvRecipe> & Pick<EnvRecipe, 'runner'>): EnvRecipe => ({
  base: TRIXIE,
  aptPackages: [],
  env: {},
  manifests: [],
  setup: [],
  build: [],
  ...parts,
})

/** One word of a line of shell, whatever is in it. */
export const word = (text: string): string =>
  /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

/** Files of the tree by name, in any folder but those of others. */
export const named = ({ paths }: TreeFacts, pattern: RegExp): string[] =>
  [...paths]
    .filter((path) => pattern.test(path.slice(path.lastIndexOf('/') + 1)))
    .filter((path) => !/(^|\/)(node_modules|vendor|third_party|\.git)\//.test(path))
    .sort()

export const present = ({ paths }: TreeFacts, ...names: string[]): string[] => names.filter((name) => paths.has(name))
