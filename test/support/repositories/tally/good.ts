import type { SamplePull } from '../repository.ts'

/** Pull requests that make good tasks, by number. Each applies to the tree after the previous ones. */
export const good = {
  negative: {
    number: 1,
    title: 'Keep the sign of amounts below one unit',
    body: 'parse_amount("-0.50") gave 50, so a refund of half a unit was booked as a payment.\n\nFixes #211',
    edits: {
      'tally/money.py': [
        [
          `    units = int(whole)
    if units < 0:
        return units * 100 - cents
    return units * 100 + cents
`,
          `    sign = -1 if whole.startswith("-") else 1
    return sign * (abs(int(whole)) * 100 + cents)
`,
        ],
      ],
      'tests/test_money.py': [
        [
          `@pytest.mark.parametrize("text", ["",`,
          `def test_a_negative_amount_below_one_unit():
    assert parse_amount("-0.50") == -50


def test_minus_nothing_is_nothing():
    assert parse_amount("-0") == 0


@pytest.mark.parametrize("text", ["",`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'easy',
  },
  allocate: {
    number: 2,
    title: 'Split an amount without losing a cent',
    body: 'Thirds of 1.00 never added up. allocate() hands the cents that are left to the first shares.',
    isMerge: true,
    branch: 'bo/allocate',
    edits: {
      'tally/money.py': [
        [
          'def format_amount(cents):',
          `def allocate(cents, weights):
    """Shares of an amount that add up to it. What is left over goes to the first shares, a cent each."""
    if not weights or min(weights) < 0 or sum(weights) == 0:
        raise ValueError("weights must be positive")
    whole = sum(weights)
    sign = -1 if cents < 0 else 1
    shares = [abs(cents) * weight // whole for weight in weights]
    left = abs(cents) - sum(shares)
    for place, weight in enumerate(weights):
        if left and weight:
            shares[place] += 1
            left -= 1
    return [sign * share for share in shares]


def format_amount(cents):`,
        ],
      ],
      'tally/__init__.py': [
        [
          `from tally.money import format_amount, parse_amount

__all__ = ["Entry", "Ledger", "format_amount",`,
          `from tally.money import allocate, format_amount, parse_amount

__all__ = ["Entry", "Ledger", "allocate", "format_amount",`,
        ],
      ],
      'tests/test_allocate.py': `import pytest

from tally import allocate


def test_thirds_add_up():
    assert allocate(100, [1, 1, 1]) == [34, 33, 33]


def test_shares_follow_their_weights():
    assert allocate(1000, [3, 1]) == [750, 250]


def test_a_weight_of_nothing_gets_nothing():
    assert allocate(101, [0, 1, 1]) == [0, 51, 50]


def test_a_debt_is_split_like_an_amount():
    assert allocate(-100, [1, 1, 1]) == [-34, -33, -33]


@pytest.mark.parametrize("weights", [[], [0, 0], [1, -1]])
def test_weights_must_be_positive(weights):
    with pytest.raises(ValueError):
        allocate(100, weights)
`,
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  currencies: {
    number: 3,
    title: 'Accounts can hold other currencies',
    body: 'An amount may end in a currency, as in 12.50EUR. Balances of different currencies are never added up.',
    isMerge: true,
    branch: 'cy/currencies',
    edits: {
      'tally/money.py': [
        [
          'def parse_amount(text):',
          `def split_currency(text):
    """'12.5EUR' is '12.5' and 'EUR'. What has no currency has an empty one."""
    number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return number, text[len(number) :]


def parse_amount(text):`,
        ],
        ['def format_amount(cents):', 'def format_amount(cents, currency=""):'],
        [
          '    return f"{sign}{units}.{rest:02d}"',
          `    number = f"{sign}{units}.{rest:02d}"
    return f"{number} {currency}" if currency else number`,
        ],
      ],
      'tally/entries.py': [
        ['from tally.money import parse_amount', 'from tally.money import parse_amount, split_currency'],
        ['    note: str = ""\n', '    note: str = ""\n    currency: str = ""\n'],
        [
          '    return Entry(date.fromisoformat(day), parse_amount(amount), source, target, note)',
          `    number, currency = split_currency(amount)
    return Entry(date.fromisoformat(day), parse_amount(number), source, target, note, currency)`,
        ],
      ],
      'tally/ledger.py': [
        [
          `    def balances(self):
        totals = defaultdict(int)
        for entry in self.entries:
            totals`,
          `    def currencies(self):
        return sorted({entry.currency for entry in self.entries})

    def balances(self, currency=""):
        totals = defaultdict(int)
        for entry in self.entries:
            if entry.currency != currency:
                continue
            totals`,
        ],
        [
          `    def balance(self, account):
        return self.balances().get(account, 0)`,
          `    def balance(self, account, currency=""):
        return self.balances(currency).get(account, 0)`,
        ],
      ],
      'tally/report.py': [
        [
          `    for account, cents in ledger.balances().items():
        name = pad_right(clip(account, NAME_WIDTH), NAME_WIDTH)
        lines.append(name + pad_left(format_amount(cents), AMOUNT_WIDTH))
`,
          `    for currency in ledger.currencies():
        for account, cents in ledger.balances(currency).items():
            name = pad_right(clip(account, NAME_WIDTH), NAME_WIDTH)
            lines.append(name + pad_left(format_amount(cents, currency), AMOUNT_WIDTH))
`,
        ],
      ],
      'tally/__init__.py': [
        [
          'import allocate, format_amount, parse_amount\n',
          'import allocate, format_amount, parse_amount, split_currency\n',
        ],
        ['"parse_amount", "parse_entry"]', '"parse_amount", "parse_entry", "split_currency"]'],
      ],
      'tests/test_currencies.py': `from tally import split_currency
from tally.money import format_amount


def test_a_currency_at_the_end():
    assert split_currency("12.50EUR") == ("12.50", "EUR")


def test_no_currency():
    assert split_currency("12.50") == ("12.50", "")


def test_an_amount_with_its_currency():
    assert format_amount(1250, "EUR") == "12.50 EUR"
`,
      'tests/test_entries.py': [
        [
          '@pytest.mark.parametrize("line", ["",',
          `def test_an_entry_in_a_currency():
    entry = parse_entry("2025-01-31 12.50EUR cash -> food")
    assert (entry.cents, entry.currency) == (1250, "EUR")


@pytest.mark.parametrize("line", ["",`,
        ],
      ],
      'tests/test_ledger.py': [
        [
          'def test_the_last_day_is_left_out():',
          `def test_currencies_are_kept_apart():
    ledger = Ledger.read("2025-01-01 5 bank -> cash\\n2025-01-02 7EUR bank -> cash")
    assert ledger.balance("cash") == 500
    assert ledger.balance("cash", "EUR") == 700
    assert ledger.currencies() == ["", "EUR"]


def test_the_last_day_is_left_out():`,
        ],
      ],
      'tests/test_report.py': [
        [
          'def test_nothing_is_empty():',
          `def test_each_currency_has_its_lines():
    ledger = Ledger.read("2025-01-01 5 bank -> cash\\n2025-01-02 7EUR bank -> cash")
    assert render_balances(ledger).splitlines()[2:] == [
        "bank         -7.00 EUR",
        "cash          7.00 EUR",
    ]


def test_nothing_is_empty():`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'hard',
  },
  turnover: {
    number: 4,
    title: 'Reports are sorted, and end with what moved',
    body: 'Accounts came in the order of their first entry, which nobody could find anything in.',
    edits: {
      'tally/ledger.py': [
        [
          '    def between(self, first, last):',
          `    def turnover(self, currency=""):
        return sum(abs(entry.cents) for entry in self.entries if entry.currency == currency)

    def between(self, first, last):`,
        ],
      ],
      'tally/report.py': [
        [
          'for account, cents in ledger.balances(currency).items():',
          'for account, cents in sorted(ledger.balances(currency).items()):',
        ],
        [
          '    return "\\n".join(lines)',
          `        moved = format_amount(ledger.turnover(currency), currency)
        lines.append(pad_right("moved", NAME_WIDTH) + pad_left(moved, AMOUNT_WIDTH))
    return "\\n".join(lines)`,
        ],
      ],
      'tests/test_report.py': [
        [
          `        "bank             -5.00",
        "cash              5.00",
    ]
`,
          `        "bank             -5.00",
        "cash              5.00",
        "moved             5.00",
    ]


def test_accounts_are_sorted():
    ledger = Ledger.read("2025-01-01 5 zoo -> art\\n2025-01-01 1 art -> bus")
    assert [line.split()[0] for line in render_balances(ledger).splitlines()] == ["art", "bus", "zoo", "moved"]
`,
        ],
        ['.splitlines()[2:] == [', '.splitlines()[3:] == ['],
        [
          `        "cash          7.00 EUR",\n`,
          `        "cash          7.00 EUR",\n        "moved         7.00 EUR",\n`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  clip: {
    number: 5,
    title: 'A name is never wider than its column',
    edits: {
      'tally/text.py': [
        [
          '    return text[: width - 3] + "..."',
          `    if width <= 3:
        kept = max(width, 0)
        return text[:kept]
    return text[: width - 3] + "..."`,
        ],
      ],
      'tests/test_text.py': `import pytest

from tally.text import clip


def test_a_short_text_stays():
    assert clip("food", 4) == "food"


def test_a_long_text_ends_in_dots():
    assert clip("groceries", 6) == "gro..."


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_a_narrow_column_has_no_room_for_dots(width):
    assert clip("groceries", width) == "groceries"[:width]
`,
    },
    expected: 'ready',
    difficulty: 'easy',
  },
} satisfies Record<string, SamplePull>
