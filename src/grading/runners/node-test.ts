import { JAVASCRIPT_TEST_FILE, NODE_SETTINGS } from './node.ts'
import { hasFile, mentions, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** Node's built-in runner. Its JUnit report lacks file names, so a custom reporter is used. */
export const nodeTest: Runner = {
  id: 'node-test',
  name: 'node:test',
  report: 'lines',
  shuffles: false,
  isFallback: false,
  detect: (tree) =>
    mentions(tree, 'package.json', /\bnode\b[^"\n]{0,300}\s--test\b/) ||
    hasFile(tree, (path) => JAVASCRIPT_TEST_FILE.test(path) && mentions(tree, path, /['"]node:test['"]/)),
  isTarget: (path) => JAVASCRIPT_TEST_FILE.test(path),
  command: ({ targets }) =>
    `node --test --test-reporter="$ASSAY_TOOLS/reporter.mjs" --test-reporter-destination="$ASSAY_REPORT/report"${pathWords(targets)}`,
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: NODE_SETTINGS,
  tools: [{ name: 'reporter.mjs', file: 'node-test-report.mjs' }],
}
