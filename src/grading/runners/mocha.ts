import { BIN_OF, dependsOn, JAVASCRIPT_TEST_FILE, NODE_SETTINGS, programOf } from './node.ts'
import { hasFile, mentions, pathWords, type Runner } from './runner.ts'

/** It exits with the number of failures. A file that cannot be loaded stops it, and then there is no report. */
const FAILED = Array.from({ length: 255 }, (_, index) => index + 1)

export const mocha: Runner = {
  id: 'mocha',
  name: 'Mocha',
  report: 'mocha',
  shuffles: false,
  isFallback: false,
  detect: (tree) =>
    mentions(tree, 'package.json', dependsOn('mocha')) || hasFile(tree, (path) => /^\.mocharc(\.|$)/.test(path)),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command: ({ targets }) =>
    `${programOf('mocha')} --reporter json --reporter-option output="$ASSAY_REPORT/report"${pathWords(targets)} > /dev/null`,
  prepare: [],
  exits: { passed: [0], failed: FAILED },
  settings: [...NODE_SETTINGS, '.mocharc', '.mocharc.*', 'mocha.opts', '*mocha*setup*'],
  tools: [BIN_OF],
}
