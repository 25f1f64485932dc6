import { PYTHON, PYTHON_SETTINGS, PYTHON_TEST_FILE } from './python.ts'
import { hasFile, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** Python's built-in runner. It has no machine-readable report, so a custom result class writes one. */
export const unittest: Runner = {
  id: 'unittest',
  name: 'unittest',
  report: 'lines',
  shuffles: true,
  isFallback: true,
  detect: (tree) => hasFile(tree, (path) => PYTHON_TEST_FILE.test(path)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command: ({ targets, seed }) =>
    `${seed === null ? '' : `ASSAY_SEED=${seed} `}${PYTHON} "$ASSAY_TOOLS/unittest_report.py" "$ASSAY_REPORT/report"${pathWords(targets)}`,
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: [...PYTHON_SETTINGS, 'unittest/'],
  tools: [{ name: 'unittest_report.py', file: 'unittest-report.py' }],
}
