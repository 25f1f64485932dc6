import { hasFile, mentions, pathWords, type Runner, SELECTED_TESTS, ZERO_OR_ONE } from './runner.ts'

/** Shell word for the first Python in the PATH of the image. */
const PYTHON = '"$(command -v python || command -v python3)"'

/** Files that Python loads implicitly or that configure its test runners. */
const PYTHON_SETTINGS = [
  'sitecustomize.py',
  'usercustomize.py',
  '*.pth',
  '*.egg-link',
  'pyvenv.cfg',
  // Metadata of installed packages can load plugins, and compiled files are loaded instead of their sources.
  ...['*.dist-info/', '*.egg-info/', '*.egg', '__pycache__/', '*.pyc'],
  'setup.cfg',
  'pyproject.toml',
  'tox.ini',
]

const PYTHON_TEST_FILE: RegExp = /(^|\/)(test_[^/]*|[^/]*_tests?|tests?)\.py$/

/** Files that may mention the test runner of a Python project. */
const FILES_NAMING_RUNNER = ['pyproject.toml', 'setup.cfg', 'setup.py', 'tox.ini', 'noxfile.py', 'Pipfile', 'Makefile']
const REQUIREMENTS = /^(requirements[^/]*|[^/]*requirements|requirements\/.*|test-requirements)\.(txt|in)$/

/** Matches test functions, which only pytest runs, and imports of pytest. */
const PYTEST_CODE = /^(?:import pytest\b|from pytest\b|(?:async )?def test_)/m

const shuffle = { name: 'pytest_shuffle_by_seed.py', file: 'pytest-shuffle.py' }
const select = { name: 'pytest_select.py', file: 'pytest-select.py' }
const options = { name: 'pytest_options.py', file: 'pytest-options.py' }

/**
 * Keeps only those options of the project that select tests; others request coverage and reports. A file that cannot be
 * loaded does not stop the others.
 */
export const pytest: Runner = {
  id: 'pytest',
  name: 'pytest',
  report: 'junit',
  shuffles: true,
  selects: true,
  isFallback: false,
  detect: (tree) =>
    hasFile(tree, (path) => /(^|\/)(conftest\.py|pytest\.ini|\.pytest\.ini|pytest\.toml)$/.test(path)) ||
    [...FILES_NAMING_RUNNER, ...[...tree.paths].filter((path) => REQUIREMENTS.test(path))].some((path) =>
      mentions(tree, path, /\bpytest\b/),
    ) ||
    hasFile(tree, (path) => PYTHON_TEST_FILE.test(path) && mentions(tree, path, PYTEST_CODE)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command({ targets, seed, only = null }) {
    const shuffled = seed === null ? '' : `ASSAY_SEED=${seed} `
    const plugins = [...(seed === null ? [] : ['pytest_shuffle_by_seed']), ...(only === null ? [] : ['pytest_select'])]
    const path = plugins.length === 0 ? '' : `PYTHONPATH="$ASSAY_TOOLS\${PYTHONPATH:+:$PYTHONPATH}" `
    const named = plugins.map((name) => ` -p ${name}`).join('')
    const chosen = `PYTEST_ADDOPTS="$(${PYTHON} -I -B "$ASSAY_TOOLS/${options.name}")" `
    return `${chosen}${path}${shuffled}${PYTHON} -m pytest${named} -q -p no:cacheprovider -o addopts= -o junit_family=xunit1 --continue-on-collection-errors --junitxml="$ASSAY_REPORT/report"${pathWords(targets)}`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: [...PYTHON_SETTINGS, 'conftest.py', 'pytest.ini', '.pytest.ini', 'pytest.toml', '.pytest.toml'],
  tools: [shuffle, select, options],
}

/** Python's built-in runner. It has no machine-readable report, so a custom result class writes one. */
export const unittest: Runner = {
  id: 'unittest',
  name: 'unittest',
  report: 'lines',
  shuffles: true,
  selects: true,
  isFallback: true,
  detect: (tree) => hasFile(tree, (path) => PYTHON_TEST_FILE.test(path)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command: ({ targets, seed, only = null }) =>
    `${seed === null ? '' : `ASSAY_SEED=${seed} `}${only === null ? '' : `ASSAY_SELECTED="$ASSAY_TOOLS/${SELECTED_TESTS}" `}${PYTHON} "$ASSAY_TOOLS/unittest_report.py" "$ASSAY_REPORT/report"${pathWords(targets)}`,
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: [...PYTHON_SETTINGS, 'unittest/'],
  tools: [{ name: 'unittest_report.py', file: 'unittest-report.py' }],
}
