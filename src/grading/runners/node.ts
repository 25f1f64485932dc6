import type { TreeFacts } from '../suite.ts'
import { hasFile, type ToolFile } from './runner.ts'

/** Files that configure module loading, package managers and test compilers. */
export const NODE_SETTINGS = [
  'package.json',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  '.noderc',
  '.pnp.cjs',
  '.pnp.loader.mjs',
  '.babelrc',
  '.babelrc.*',
  'babel.config.*',
  '.swcrc',
  'node_modules/',
  'tsconfig.json',
  'tsconfig.*.json',
]

export const JAVASCRIPT_TEST_FILE: RegExp =
  /[._-](test|spec)s?\.[cm]?[jt]sx?$|(^|\/)(__tests__|tests?|specs?)\/.*\.[cm]?[jt]sx?$/

/** A name among the dependencies of a package. */
export const dependsOn = (name: string): RegExp => new RegExp(`"${name}"\\s*:\\s*"`)

export const hasConfig = (tree: TreeFacts, name: string): boolean =>
  hasFile(tree, (path) => path.startsWith(`${name}.config.`))

export const BIN_OF: ToolFile = { name: 'bin-of.cjs', file: 'bin-of.cjs' }

/** The program of a package, by Node's own rules of finding it: also in a folder above. */
export const nodeCommand = (name: string): string => `node "$(node "$ASSAY_TOOLS/bin-of.cjs" ${name})"`
