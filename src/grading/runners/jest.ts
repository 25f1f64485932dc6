import { BIN_OF, dependsOn, hasConfig, JAVASCRIPT_TEST_FILE, NODE_SETTINGS, nodeCommand } from './node.ts'
import { mentions, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** Jest supports shuffling since 29.5. */
const shuffled = (seed: number | null): string =>
  seed === null ? '' : ` $(node "$ASSAY_TOOLS/bin-of.cjs" jest 29.5 '--randomize --seed=${seed}')`

export const jest: Runner = {
  id: 'jest',
  name: 'Jest',
  report: 'jest',
  shuffles: true,
  isFallback: false,
  detect: (tree) => mentions(tree, 'package.json', dependsOn('jest')) || hasConfig(tree, 'jest'),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command({ targets, seed }) {
    const named = targets.length === 0 ? '' : ` --runTestsByPath${pathWords(targets)}`
    return `${nodeCommand('jest')} --ci --watchman=false --coverage=false --json --outputFile="$ASSAY_REPORT/report"${shuffled(seed)}${named}`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: [...NODE_SETTINGS, 'jest.config.*', '*jest*setup*', 'setupTests.*', '*jest*environment*', 'jest.preset.*'],
  tools: [BIN_OF],
}
