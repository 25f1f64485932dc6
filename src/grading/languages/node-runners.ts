import type { TreeFacts } from '../suite.ts'
import { hasFile, mentions, type Runner, renderPaths, type ToolFile, USUAL_EXITS } from './language.ts'

/** Files that configure module loading, package managers and test compilers. */
const NODE_SETTINGS = [
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

const JAVASCRIPT_TEST_FILE: RegExp =
  /[._-](test|spec)s?\.[cm]?[jt]sx?$|(^|\/)(__tests__|tests?|specs?)\/.*\.[cm]?[jt]sx?$/

/** Returns a pattern that matches a dependency in a package.json. */
const dependsOn = (name: string): RegExp => new RegExp(`"${name}"\\s*:\\s*"`)

const hasConfig = (tree: TreeFacts, name: string): boolean =>
  hasFile(tree, (path) => path.startsWith(`${name}.config.`))

const COMMAND_TOOLS: ToolFile[] = [
  { name: 'bin-of.cjs', file: 'bin-of.cjs' },
  { name: 'script-options.cjs', file: 'script-options.cjs' },
]

/**
 * Returns shell code that sets the arguments of the shell to the command of a package's program. The program is resolved
 * as Node resolves modules: also in parent folders. Options of the project's test script are added and, if no test file is
 * selected, its paths.
 */
const renderSetCommand = (name: string, targets: readonly string[] = []): string =>
  `eval "set -- $(node "$ASSAY_TOOLS/script-options.cjs" ${name} "$(node "$ASSAY_TOOLS/bin-of.cjs" ${name})"${targets.length === 0 ? ' paths' : ''})"`

/** Node's built-in runner. Its JUnit report lacks file names, so a custom reporter is used. */
export const nodeTest: Runner = {
  id: 'node-test',
  name: 'node:test',
  report: 'lines',
  shuffles: false,
  selects: false,
  isFallback: false,
  detect: (tree) =>
    mentions(tree, 'package.json', /\bnode\b[^"\n]{0,300}\s--test\b/) ||
    hasFile(tree, (path) => JAVASCRIPT_TEST_FILE.test(path) && mentions(tree, path, /['"]node:test['"]/)),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command: ({ targets }) =>
    `node --test --test-reporter="$ASSAY_TOOLS/reporter.mjs" --test-reporter-destination="$ASSAY_REPORT/report"${renderPaths(targets)}`,
  prepare: [],
  exits: USUAL_EXITS,
  settings: NODE_SETTINGS,
  tools: [{ name: 'reporter.mjs', file: 'node-test-report.mjs' }],
}

/** Exit codes of Mocha: the number of failures. A file that cannot be loaded aborts the run without a report. */
const FAILURE_CODES = Array.from({ length: 255 }, (_, index) => index + 1)

export const mocha: Runner = {
  id: 'mocha',
  name: 'Mocha',
  report: 'mocha',
  shuffles: false,
  selects: false,
  isFallback: false,
  detect: (tree) =>
    mentions(tree, 'package.json', dependsOn('mocha')) || hasFile(tree, (path) => /^\.mocharc(\.|$)/.test(path)),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command: ({ targets }) =>
    `${renderSetCommand('mocha', targets)}; "$@" --reporter json --reporter-option output="$ASSAY_REPORT/report"${renderPaths(targets)} > /dev/null`,
  prepare: [],
  exits: { passed: [0], failed: FAILURE_CODES },
  settings: [...NODE_SETTINGS, '.mocharc', '.mocharc.*', 'mocha.opts', '*mocha*setup*'],
  tools: COMMAND_TOOLS,
}

/** Returns the options that shuffle the tests, which Jest supports since 29.5. */
const renderShuffleOptions = (seed: number | null): string =>
  seed === null ? '' : ` $(node "$ASSAY_TOOLS/bin-of.cjs" jest 29.5 '--randomize --seed=${seed}')`

export const jest: Runner = {
  id: 'jest',
  name: 'Jest',
  report: 'jest',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: (tree) => mentions(tree, 'package.json', dependsOn('jest')) || hasConfig(tree, 'jest'),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command({ targets, seed }) {
    const named = targets.length === 0 ? '' : ` --runTestsByPath${renderPaths(targets)}`
    return `${renderSetCommand('jest')}; "$@" --ci --watchman=false --coverage=false --json --outputFile="$ASSAY_REPORT/report"${renderShuffleOptions(seed)}${named}`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: [...NODE_SETTINGS, 'jest.config.*', '*jest*setup*', 'setupTests.*', '*jest*environment*', 'jest.preset.*'],
  tools: COMMAND_TOOLS,
}

/** Vitest treats a target as a part of a path: it also runs other files whose paths contain the target. */
export const vitest: Runner = {
  id: 'vitest',
  name: 'Vitest',
  report: 'jest',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: (tree) => mentions(tree, 'package.json', dependsOn('vitest')) || hasConfig(tree, 'vitest'),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command({ targets, seed }) {
    const shuffle = seed === null ? '' : ` --sequence.shuffle --sequence.seed=${seed}`
    return `${renderSetCommand('vitest')}; "$@" run --coverage.enabled=false --reporter=json --outputFile="$ASSAY_REPORT/report"${shuffle}${renderPaths(targets)}`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: [
    ...NODE_SETTINGS,
    'vitest.config.*',
    'vite.config.*',
    'postcss.config.*',
    '.postcssrc',
    '.postcssrc.*',
    'vitest.workspace.*',
    '*vitest*setup*',
    'setupTests.*',
  ],
  tools: COMMAND_TOOLS,
}
