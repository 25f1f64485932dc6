import type { TreeFacts } from '../suite.ts'

/**
 * Steps that prepare an image for a test suite. Found by rules, or proposed by a model; either way the steps are
 * executed and checked. Shell lines run as root in the repository.
 */
export type EnvRecipe = {
  /** Name of a known base image. */
  base: string
  aptPackages: string[]
  env: Record<string, string>
  /** Runs before anything of the tree is copied, with network access: all trees with the same tools share its layer. */
  toolchain: string[]
  /** Files that `setup` needs. They are copied before the rest of the tree, so that the layer of `setup` is shared. */
  manifests: string[]
  /** Runs with the manifests alone, with network access. */
  setup: string[]
  /** Runs with the whole tree, with network access. */
  build: string[]
  runner: string
}

/** Folder for installed dependencies, outside of the repository; every user can read and write it. */
export const DEPS = '/opt/deps'

export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const TRIXIE = 'debian:trixie-slim'

/** Fills in the fields that a rule leaves out. */
export const completeRecipe = (parts: Partial<EnvRecipe> & Pick<EnvRecipe, 'runner'>): EnvRecipe => ({
  base: TRIXIE,
  aptPackages: [],
  env: {},
  toolchain: [],
  manifests: [],
  setup: [],
  build: [],
  ...parts,
})

/** Quotes one word of a shell line where it needs quoting. */
export const quoteWord = (text: string): string =>
  /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

/** Lists files by name in any folder, except vendored ones. */
export const listFilesNamed = ({ paths }: TreeFacts, pattern: RegExp): string[] =>
  [...paths]
    .filter((path) => pattern.test(path.slice(path.lastIndexOf('/') + 1)))
    .filter((path) => !/(^|\/)(node_modules|vendor|third_party|\.git)\//.test(path))
    .sort()

/** Returns the texts of the files that `listFilesNamed` finds, as far as they were read. */
export const listTextsNamed = (tree: TreeFacts, pattern: RegExp): string[] =>
  listFilesNamed(tree, pattern).flatMap((path) => tree.texts.get(path) ?? [])

/** Returns those of the names that are files of the tree. */
export const listPresent = ({ paths }: TreeFacts, ...names: string[]): string[] =>
  names.filter((name) => paths.has(name))

/**
 * Returns the day on which package indexes are frozen for a tree: the first of the month after its commit. Rounding lets
 * candidates of one month share layers, and never hides a package that the tree was developed with.
 */
export function findFreezeDay({ committedAt }: TreeFacts): string | undefined {
  if (committedAt === undefined) return undefined
  const day = new Date(Date.UTC(committedAt.getUTCFullYear(), committedAt.getUTCMonth() + 1, 1))
  return day.toISOString().slice(0, 10)
}

const CI_FILE = /^(?:\.github\/workflows\/|\.gitlab-ci\.yml$|\.travis\.yml$|\.circleci\/config\.yml$)/

/** Lists the versions that CI files give for a key such as `python-version`, as a value or as a list on one line. */
export function listCiVersions({ texts }: TreeFacts, key: string): string[] {
  const entry = new RegExp(`\\b${key}s?["']?[ \\t]*:[ \\t]*(\\[[^\\]]{0,500}\\]|[^\\n]{0,500})`, 'g')
  const values = [...texts]
    .filter(([path]) => CI_FILE.test(path))
    .flatMap(([, text]) => [...text.matchAll(entry)].map(([, value = '']) => value))
  return [...new Set(values.flatMap((value) => value.match(/\b\d+(?:\.\d+)*\b/g) ?? []))]
}
