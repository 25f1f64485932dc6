import { PYTHON, PYTHON_SETTINGS, PYTHON_TEST_FILE } from './python.ts'
import { hasFile, mentions, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

/** Files that name what a Python project is tested with. */
const NAMING = ['pyproject.toml', 'setup.cfg', 'setup.py', 'tox.ini', 'noxfile.py', 'Pipfile', 'Makefile']
const REQUIREMENTS = /^(requirements[^/]*|[^/]*requirements|requirements\/.*|test-requirements)\.(txt|in)$/

/** Only pytest takes functions for tests. */
const PLAIN_TEST = /^(?:import pytest\b|from pytest\b|(?:async )?def test_)/m

const shuffle = { name: 'pytest_shuffle_by_seed.py', file: 'pytest-shuffle.py' }
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
  isFallback: false,
  detect: (tree) =>
    hasFile(tree, (path) => /(^|\/)(conftest\.py|pytest\.ini|\.pytest\.ini|pytest\.toml)$/.test(path)) ||
    [...NAMING, ...[...tree.paths].filter((path) => REQUIREMENTS.test(path))].some((path) =>
      mentions(tree, path, /\bpytest\b/),
    ) ||
    hasFile(tree, (path) => PYTHON_TEST_FILE.test(path) && mentions(tree, path, PLAIN_TEST)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command({ targets, seed }) {
    const shuffled = seed === null ? '' : `PYTHONPATH="$ASSAY_TOOLS\${PYTHONPATH:+:$PYTHONPATH}" ASSAY_SEED=${seed} `
    const plugin = seed === null ? '' : ' -p pytest_shuffle_by_seed'
    const chosen = `PYTEST_ADDOPTS="$(${PYTHON} -I -B "$ASSAY_TOOLS/${options.name}")" `
    return `${chosen}${shuffled}${PYTHON} -m pytest${plugin} -q -p no:cacheprovider -o addopts= -o junit_family=xunit1 --continue-on-collection-errors --junitxml="$ASSAY_REPORT/report"${pathWords(targets)}`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: [...PYTHON_SETTINGS, 'conftest.py', 'pytest.ini', '.pytest.ini', 'pytest.toml', '.pytest.toml'],
  tools: [shuffle, options],
}
