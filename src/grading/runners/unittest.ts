import { PYTHON, PYTHON_SETTINGS, PYTHON_TEST_FILE } from './python.ts'
import { hasFile, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** Python's own. It has no report that a program could read, so a program of ours listens to it. */
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
