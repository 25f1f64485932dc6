import type { SamplePull, SamplePush } from '../repository.ts'

/** Builds a change with a test, for pull requests that are rejected for another reason. `word` makes it unique. */
const change = (word: string): Record<string, string> => ({
  [`tally/extra_${word}.py`]: `def ${word}(entry):\n    if entry.cents < 0:\n        return "${word}"\n    return ""\n`,
  [`tests/test_extra_${word}.py`]: `from tally.extra_${word} import ${word}\n\n\nclass Debt:\n    cents = -1\n\n\ndef test_${word}():\n    assert ${word}(Debt()) == "${word}"\n`,
})

const gone = (word: string): Record<string, null> => ({
  [`tally/extra_${word}.py`]: null,
  [`tests/test_extra_${word}.py`]: null,
})

/** Rejected by screening, before anything runs. */
export const screened: readonly (SamplePull | SamplePush)[] = [
  {
    number: 40,
    title: 'Newer parts for the tests',
    author: 'dependabot[bot]',
    edits: change('newer'),
    expected: 'bot',
  },
  {
    number: 41,
    title: 'All parts',
    isMerge: true,
    branch: 'acme/renovate/all',
    edits: change('parts'),
    expected: 'bot',
  },
  { number: 42, title: 'chore: sort the imports', edits: change('sorted_imports'), expected: 'chore_title' },
  { number: 43, title: '[0.2] Backport the sign', edits: change('backported'), expected: 'chore_title' },
  { number: 44, title: 'Colour debts red', edits: change('red'), expected: 'reverted' },
  { number: 45, title: 'Revert "Colour debts red (#44)"', edits: gone('red'), expected: 'chore_title' },
  {
    number: 46,
    title: 'Say how notes work',
    edits: { 'README.md': '# tally\n\nA note is all that follows the target.\n', 'docs/notes.md': 'More of it.\n' },
    expected: 'docs_only',
  },
  {
    number: 47,
    title: 'A newer pytest',
    edits: { 'requirements-test.txt': 'pytest>=8.2\n' },
    expected: 'dependencies_only',
  },
  {
    number: 48,
    title: 'One more case',
    edits: { 'tests/test_more.py': 'def test_more():\n    assert 1 + 1 == 2\n    assert 2 + 2 == 4\n' },
    expected: 'tests_only',
  },
  { number: 49, title: 'Sort by settings', edits: { 'settings.yaml': 'sort: name\n' }, expected: 'no_source' },
  {
    number: 50,
    title: 'A way to run it',
    edits: {
      'tally/__main__.py':
        'import sys\n\nfrom tally import Ledger\n\nprint(len(Ledger.read(sys.stdin.read()).entries))\n',
    },
    expected: 'no_tests',
  },
  {
    number: 51,
    title: 'Nothing but a number',
    edits: {
      'tally/limits.py': 'LINES_MAX = 10\n',
      'tests/test_limits.py':
        'from tally.limits import LINES_MAX\n\n\ndef test_limits():\n    assert LINES_MAX == 10\n',
    },
    expected: 'too_small',
  },
  {
    number: 52,
    title: 'A picture for the page',
    edits: { ...change('picture'), 'tally/logo.png': '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' },
    expected: 'binary',
  },
  {
    number: 53,
    title: 'Tidy the limits',
    edits: {
      'tally/limits.py': '# How long a ledger may be.\n\n\nLINES_MAX    =  10\n',
      'tests/test_limits.py':
        'from tally.limits import LINES_MAX\n\n\ndef test_limits():\n    assert LINES_MAX == 10\n\n\ndef test_more():\n    assert LINES_MAX > 9\n',
    },
    expected: 'cosmetic',
  },
  {
    number: 54,
    title: 'New messages for the service',
    edits: { 'tally/ledger_pb2.py': 'MESSAGE = 1\nOTHER = 2\nMORE = 3\n' },
    expected: 'generated_only',
  },
  {
    number: 55,
    title: 'All rates of the world',
    edits: {
      'tally/rates.py': `RATES = {\n${Array.from({ length: 1200 }, (_, at) => `    "C${at}": ${at},\n`).join('')}}\n`,
      'tests/test_rates.py': 'from tally.rates import RATES\n\n\ndef test_rates():\n    assert RATES["C7"] == 7\n',
    },
    expected: 'too_large',
  },
  { message: 'No rates', edits: { 'tally/rates.py': null, 'tests/test_rates.py': null } },
  // A change that was reverted by a push and merged again: only the newer pull request counts, and it is good.
  { number: 56, title: 'Name the debts', edits: change('debts'), expected: 'duplicate' },
  { message: 'Not yet', edits: gone('debts') },
  { number: 57, title: 'Name the debts, at last', edits: change('debts'), expected: 'ready', difficulty: 'easy' },
]

/** Most of these tests fail, so no change to the tree can be verified. */
const WORK_IN_PROGRESS = `import pytest


@pytest.mark.parametrize("number", range(30))
def test_to_do(number):
    assert number < 0
`

/** Most of these tests need the network, so the change cannot be verified without it. */
const OUTSIDE = `from urllib.request import urlopen

import pytest


@pytest.mark.parametrize("number", range(12))
def test_the_world(number):
    assert urlopen("http://example.org/", timeout=5).status == 200
`

/** The last steps, whose trees no later pull request could build on. */
export const last: readonly (SamplePull | SamplePush)[] = [
  { message: 'Begin the great rewrite', edits: { 'tests/test_to_do.py': WORK_IN_PROGRESS } },
  { number: 18, title: 'Name the credits', edits: change('credits'), expected: 'suite_unhealthy', difficulty: 'easy' },
  { message: 'End the great rewrite', edits: { 'tests/test_to_do.py': null } },
  { message: 'Look at the world', edits: { 'tests/test_world.py': OUTSIDE } },
  { number: 19, title: 'Name the savings', edits: change('savings'), expected: 'needs_network', difficulty: 'easy' },
  { message: 'Stay at home', edits: { 'tests/test_world.py': null } },
]

/** Merged in the year 2099, so always less than a week ago. */
export const tooNew: SamplePull = {
  number: 60,
  title: 'Only just now',
  at: 4_070_908_800,
  edits: change('now'),
  expected: 'too_new',
}
