/** A ledger in plain text. Python, with pytest and nothing else. */
export const base: Record<string, string> = {
  'README.md': `# tally

A ledger in plain text. Each line moves an amount from one account to another.

    2025-01-31 12.50 cash -> food  lunch
`,
  '.gitignore': '__pycache__/\n*.egg-info/\nbuild/\n.venv/\n',
  'pyproject.toml': `[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "tally-ledger"
version = "0.3.0"
description = "A ledger in plain text"
requires-python = ">=3.9"

[project.optional-dependencies]
test = ["pytest>=8"]

[tool.setuptools]
packages = ["tally"]

[tool.pytest.ini_options]
testpaths = ["tests"]
`,
  'tally/__init__.py': `from tally.entries import Entry, parse_entry
from tally.ledger import Ledger
from tally.money import format_amount, parse_amount

__all__ = ["Entry", "Ledger", "format_amount", "parse_amount", "parse_entry"]
`,
  'tally/money.py': `"""Amounts are whole cents."""


def parse_amount(text):
    """'12.5' is 1250 cents."""
    whole, _, part = text.strip().partition(".")
    if not whole.lstrip("-").isdigit() or (part and not part.isdigit()) or len(part) > 2:
        raise ValueError(f"not an amount: {text!r}")
    cents = int(part.ljust(2, "0")) if part else 0
    units = int(whole)
    if units < 0:
        return units * 100 - cents
    return units * 100 + cents


def format_amount(cents):
    sign = "-" if cents < 0 else ""
    units, rest = divmod(abs(cents), 100)
    return f"{sign}{units}.{rest:02d}"
`,
  'tally/text.py': `"""What reports are set with."""


def pad_right(text, width):
    return text + " " * (width - len(text))


def pad_left(text, width):
    return " " * (width - len(text)) + text


def clip(text, width):
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."


def percent(part, whole):
    if whole == 0:
        return "-"
    return f"{100 * part // whole}%"
`,
  'tally/entries.py': `from dataclasses import dataclass
from datetime import date

from tally.money import parse_amount


@dataclass(frozen=True)
class Entry:
    day: date
    cents: int
    source: str
    target: str
    note: str = ""


def parse_entry(line):
    """One line of a ledger: day, amount, source, arrow, target, and a note."""
    parts = line.split(None, 5)
    if len(parts) < 5 or parts[3] != "->":
        raise ValueError(f"not an entry: {line!r}")
    day, amount, source, _, target = parts[:5]
    note = parts[5].strip() if len(parts) > 5 else ""
    return Entry(date.fromisoformat(day), parse_amount(amount), source, target, note)
`,
  'tally/ledger.py': `from collections import defaultdict

from tally.entries import parse_entry


class Ledger:
    def __init__(self):
        self.entries = []

    @classmethod
    def read(cls, text):
        ledger = cls()
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                ledger.add(parse_entry(line))
        return ledger

    def add(self, entry):
        self.entries.append(entry)

    def balances(self):
        totals = defaultdict(int)
        for entry in self.entries:
            totals[entry.source] -= entry.cents
            totals[entry.target] += entry.cents
        return dict(totals)

    def balance(self, account):
        return self.balances().get(account, 0)

    def between(self, first, last):
        chosen = Ledger()
        for entry in self.entries:
            if first <= entry.day < last:
                chosen.add(entry)
        return chosen
`,
  'tally/report.py': `from tally.money import format_amount
from tally.text import clip, pad_left, pad_right

NAME_WIDTH = 12
AMOUNT_WIDTH = 10


def render_balances(ledger):
    lines = []
    for account, cents in ledger.balances().items():
        name = pad_right(clip(account, NAME_WIDTH), NAME_WIDTH)
        lines.append(name + pad_left(format_amount(cents), AMOUNT_WIDTH))
    return "\\n".join(lines)
`,
  'tests/test_money.py': `import pytest

from tally.money import format_amount, parse_amount


def test_whole_units():
    assert parse_amount("12") == 1200


def test_one_digit_of_cents():
    assert parse_amount("12.5") == 1250


def test_two_digits_of_cents():
    assert parse_amount(" 0.07 ") == 7


def test_negative_units():
    assert parse_amount("-3.25") == -325


@pytest.mark.parametrize("text", ["", "x", "1.234", "1.x", "--1x"])
def test_what_is_no_amount(text):
    with pytest.raises(ValueError):
        parse_amount(text)


def test_format():
    assert format_amount(123456) == "1234.56"


def test_format_zero():
    assert format_amount(0) == "0.00"


def test_format_negative():
    assert format_amount(-5) == "-0.05"
`,
  'tests/test_entries.py': `from datetime import date

import pytest

from tally.entries import Entry, parse_entry


def test_an_entry_with_a_note():
    entry = parse_entry("2025-01-31 12.50 cash -> food lunch with Bo")
    assert entry == Entry(date(2025, 1, 31), 1250, "cash", "food", "lunch with Bo")


def test_an_entry_without_a_note():
    assert parse_entry("2025-01-31 1 a -> b").note == ""


@pytest.mark.parametrize("line", ["", "2025-01-31 1 a b", "2025-01-31 1 a => b"])
def test_what_is_no_entry(line):
    with pytest.raises(ValueError):
        parse_entry(line)
`,
  'tests/test_ledger.py': `from datetime import date

from tally.ledger import Ledger

TEXT = """# January
2025-01-01 100 bank -> cash
2025-01-02 30 cash -> food

2025-02-01 20.50 cash -> rent
"""


def test_comments_and_empty_lines_are_left_out():
    assert len(Ledger.read(TEXT).entries) == 3


def test_balance():
    ledger = Ledger.read(TEXT)
    assert ledger.balance("cash") == 4950
    assert ledger.balance("bank") == -10000


def test_an_unknown_account_is_empty():
    assert Ledger.read(TEXT).balance("gold") == 0


def test_all_balances_add_up_to_nothing():
    assert sum(Ledger.read(TEXT).balances().values()) == 0


def test_the_last_day_is_left_out():
    january = Ledger.read(TEXT).between(date(2025, 1, 1), date(2025, 2, 1))
    assert len(january.entries) == 2
`,
  'tests/test_report.py': `from tally.ledger import Ledger
from tally.report import render_balances


def test_columns():
    ledger = Ledger.read("2025-01-01 5 bank -> cash")
    assert render_balances(ledger).splitlines() == [
        "bank             -5.00",
        "cash              5.00",
    ]


def test_nothing_is_empty():
    assert render_balances(Ledger()) == ""
`,
}
