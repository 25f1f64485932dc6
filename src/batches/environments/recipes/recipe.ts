import type { EnvRecipe, TreeFacts } from '../../stages/parts.ts'

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
