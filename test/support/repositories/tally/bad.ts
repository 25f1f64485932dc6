import type { SamplePull, SamplePush } from '../repository.ts'

/**
 * Pull requests that pass screening and must be rejected when they are executed, and pushes that make the test suite
 * pass again.
 */
export const bad: readonly (SamplePull | SamplePush)[] = [
  {
    number: 10,
    title: 'Balances need no special dictionary',
    edits: {
      'tally/ledger.py': [
        ['from collections import defaultdict\n\n', ''],
        ['        totals = defaultdict(int)\n', '        totals = {}\n'],
        [
          '            totals[entry.source] -= entry.cents',
          '            totals[entry.source] = totals.get(entry.source, 0) - entry.cents',
        ],
        [
          '            totals[entry.target] += entry.cents',
          '            totals[entry.target] = totals.get(entry.target, 0) + entry.cents',
        ],
        ['        return dict(totals)', '        return totals'],
      ],
      'tests/test_ledger.py': [
        [
          'def test_an_unknown_account_is_empty():',
          `def test_balances_are_a_plain_dictionary():
    assert Ledger.read("2025-01-01 5 a -> b").balances() == {"a": -500, "b": 500}


def test_an_unknown_account_is_empty():`,
        ],
      ],
    },
    expected: 'no_f2p',
    difficulty: 'easy',
  },
  {
    number: 11,
    title: 'Show nothing as a dash',
    edits: {
      'tally/money.py': [
        [
          '    sign = "-" if cents < 0 else ""\n',
          '    if cents == 0:\n        return "-"\n    sign = "-" if cents < 0 else ""\n',
        ],
        ['    units, rest = divmod(abs(cents), 100)', '    units, rest = divmod(abs(int(cents)), 100)'],
      ],
      'tests/test_dash.py': `from tally.money import format_amount


def test_nothing_is_a_dash():
    assert format_amount(0) == "-"
`,
    },
    expected: 'p2f',
    difficulty: 'easy',
  },
  {
    message: 'Nothing is a number again',
    edits: {
      'tally/money.py': [
        ['    if cents == 0:\n        return "-"\n', ''],
        ['divmod(abs(int(cents)), 100)', 'divmod(abs(cents), 100)'],
      ],
      'tests/test_dash.py': null,
    },
  },
  {
    number: 12,
    title: 'List the accounts of a ledger',
    edits: {
      'tally/ledger.py': [
        [
          '    def currencies(self):',
          `    def accounts(self):
        sources = {entry.source for entry in self.entries}
        return sources | {entry.target for entry in self.entries}

    def currencies(self):`,
        ],
      ],
      // Each of the 24 tests fails in one run of five, so that some test practically always fails in three runs.
      'tests/test_accounts.py': `import random

import pytest

from tally.ledger import Ledger


def test_accounts():
    assert Ledger.read("2025-01-01 5 bank -> cash").accounts() == {"bank", "cash"}


@pytest.mark.parametrize("count", range(1, 25))
def test_accounts_of_many_entries(count):
    lines = [f"2025-01-01 1 a{random.randrange(5)} -> b" for _ in range(count)]
    assert "b" in Ledger.read("\\n".join(lines)).accounts()
    assert random.random() > 0.2
`,
    },
    expected: 'flaky_f2p',
    difficulty: 'easy',
  },
  { message: 'Tests that can be relied on', edits: { 'tests/test_accounts.py': null } },
  {
    number: 13,
    title: 'Say more when something is wrong',
    edits: {
      'tally/entries.py': [
        [
          '        raise ValueError(f"not an entry: {line!r}")',
          '        raise ValueError(f"an entry is \'day amount source -> target\', and this is not: {line!r}")',
        ],
      ],
      'tally/text.py': [
        [
          '    return text + " " * (width - len(text))',
          '    if width < 0:\n        raise ValueError("a width cannot be negative")\n    return text + " " * (width - len(text))',
        ],
        [
          '    return " " * (width - len(text)) + text',
          '    if width < 0:\n        raise ValueError("a width cannot be negative")\n    return " " * (width - len(text)) + text',
        ],
      ],
      'tally/ledger.py': [
        [
          '    def add(self, entry):\n',
          '    def add(self, entry):\n        if entry is None:\n            raise ValueError("there is no entry to add")\n',
        ],
      ],
      'tally/report.py': [
        [
          'def render_balances(ledger):\n',
          'def render_balances(ledger):\n    if ledger is None:\n        raise ValueError("there is no ledger to report on")\n',
        ],
      ],
      'tests/test_entries.py': [
        [
          'def test_an_entry_without_a_note():',
          `def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="an entry is 'day amount source -> target'"):
        parse_entry("lunch")


def test_an_entry_without_a_note():`,
        ],
      ],
    },
    expected: 'weak_tests',
    difficulty: 'medium',
  },
  {
    number: 14,
    title: 'Percentages belong to money',
    edits: {
      'tally/text.py': [
        [
          '\n\ndef percent(part, whole):\n    if whole == 0:\n        return "-"\n    return f"{100 * part // whole}%"\n',
          '',
        ],
      ],
      'tally/money.py': [
        [
          'def format_amount(cents, currency',
          'def percent(part, whole):\n    if whole == 0:\n        return "-"\n    return f"{100 * part // whole}%"\n\n\ndef format_amount(cents, currency',
        ],
      ],
      'tests/test_percent.py': `from tally.money import percent


def test_a_quarter():
    assert percent(1, 4) == "25%"


def test_a_part_of_nothing():
    assert percent(1, 0) == "-"
`,
    },
    expected: 'error_only_f2p',
    difficulty: 'medium',
  },
  {
    message: 'Percentages belong to text after all',
    edits: {
      'tally/money.py': [
        [
          'def percent(part, whole):\n    if whole == 0:\n        return "-"\n    return f"{100 * part // whole}%"\n\n\n',
          '',
        ],
      ],
      'tally/text.py': [
        [
          '    return text[: width - 3] + "..."\n',
          '    return text[: width - 3] + "..."\n\n\ndef percent(part, whole):\n    if whole == 0:\n        return "-"\n    return f"{100 * part // whole}%"\n',
        ],
      ],
      'tests/test_percent.py': null,
    },
  },
  {
    number: 15,
    title: 'Read a ledger from an address',
    edits: {
      'tally/ledger.py': [
        [
          'from tally.entries import parse_entry\n',
          'from urllib.request import urlopen\n\nfrom tally.entries import parse_entry\n',
        ],
        [
          '    def add(self, entry):\n',
          '    @classmethod\n    def fetch(cls, address):\n        with urlopen(address, timeout=5) as answer:\n            return cls.read(answer.read().decode("utf-8", "replace").partition("<")[0])\n\n    def add(self, entry):\n',
        ],
      ],
      'tests/test_fetch.py': `from tally.ledger import Ledger


def test_an_address_without_a_ledger():
    assert Ledger.fetch("http://example.org/").entries == []
`,
    },
    // Tests run without a network, so the new test fails even with the change.
    expected: 'no_f2p',
    truth: 'needs_network',
    difficulty: 'easy',
  },
  { message: 'Tests stay at home', edits: { 'tests/test_fetch.py': null } },
  {
    number: 16,
    title: 'Choose the entries of this year',
    edits: {
      'tally/ledger.py': [
        ['from urllib.request import urlopen\n', 'from datetime import date\nfrom urllib.request import urlopen\n'],
        [
          '    def between(self, first, last):',
          '    def this_year(self):\n        year = date.today().year\n        return self.between(date(year, 1, 1), date(year + 1, 1, 1))\n\n    def between(self, first, last):',
        ],
      ],
      // Passes only in 2026.
      'tests/test_this_year.py': `from tally.ledger import Ledger


def test_this_year():
    ledger = Ledger.read("2025-12-31 1 a -> b\\n2026-01-01 2 a -> b\\n2027-01-01 4 a -> b")
    assert ledger.this_year().balance("b") == 200
`,
    },
    // After 2026 the test fails even with the change.
    expected: new Date().getUTCFullYear() === 2026 ? 'clock_bomb' : 'no_f2p',
    truth: 'clock_bomb',
    difficulty: 'easy',
  },
  { message: 'Tests for every year', edits: { 'tests/test_this_year.py': null } },
]

const OLDER_TEST_NAMES = [
  ...['money', 'entries', 'ledger', 'report', 'text', 'allocate', 'currencies', 'limits', 'more'],
  ...['newer', 'parts', 'sorted_imports', 'backported', 'picture', 'debts', 'credits', 'savings'].map(
    (word) => `extra_${word}`,
  ),
]

/** Removes every older test, so that regressions cannot be detected. */
export const withoutOlderTests: SamplePull = {
  number: 17,
  title: 'Test the library as its users see it',
  edits: {
    'tally/__init__.py': [
      ['from tally.ledger import Ledger\n', 'from tally.ledger import Ledger as _Ledger\n'],
      [
        '__all__ = [',
        '\n\nclass Ledger(_Ledger):\n    def __len__(self):\n        return len(self.entries)\n\n\n__all__ = [',
      ],
    ],
    ...Object.fromEntries(OLDER_TEST_NAMES.map((name) => [`tests/test_${name}.py`, null])),
    'tests/test_public.py': `from tally import Ledger


def test_a_ledger_has_a_length():
  assert len(Ledger.read("2025-01-01 1 a -> b")) == 1


def test_an_empty_ledger_has_none():
  assert len(Ledger()) == 0
`,
  },
  expected: 'no_p2p',
  difficulty: 'easy',
}
