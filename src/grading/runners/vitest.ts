import { BIN_OF, dependsOn, hasConfig, JAVASCRIPT_TEST_FILE, NODE_SETTINGS, nodeCommand } from './node.ts'
import { mentions, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** A target is a part of a path: files whose paths contain it are run too. */
export const vitest: Runner = {
  id: 'vitest',
  name: 'Vitest',
  report: 'jest',
  shuffles: true,
  isFallback: false,
  detect: (tree) => mentions(tree, 'package.json', dependsOn('vitest')) || hasConfig(tree, 'vitest'),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command({ targets, seed }) {
    const shuffle = seed === null ? '' : ` --sequence.shuffle --sequence.seed=${seed}`
    return `${nodeCommand('vitest')} run --coverage.enabled=false --reporter=json --outputFile="$ASSAY_REPORT/report"${shuffle}${pathWords(targets)}`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
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
  tools: [BIN_OF],
}
