import { BIN_OF, dependsOn, JAVASCRIPT_TEST_FILE, NODE_SETTINGS, nodeCommand } from './node.ts'
import { hasFile, mentions, pathWords, type Runner } from './runner.ts'

/** Mocha exits with the number of failures. A file that cannot be loaded aborts the run without a report. */
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
    `${nodeCommand('mocha')} --reporter json --reporter-option output="$ASSAY_REPORT/report"${pathWords(targets)} > /dev/null`,
  prepare: [],
  exits: { passed: [0], failed: FAILED },
  settings: [...NODE_SETTINGS, '.mocharc', '.mocharc.*', 'mocha.opts', '*mocha*setup*'],
  tools: [BIN_OF],
}
