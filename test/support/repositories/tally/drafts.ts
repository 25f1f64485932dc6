import { type Drafts, draft } from '../draft.ts'

export const drafts: Drafts = {
  1: draft(
    'Negative amounts smaller than one unit lose their sign',
    'Amounts are read from text into whole cents. A negative amount is read correctly as long as it has at least one whole unit. When the part before the dot is a zero, the minus in front of it is lost, so that a refund of half a unit is booked as a payment of half a unit, and the balances of both accounts are wrong by twice the amount.',
    'A minus in front of an amount always makes it negative, however small it is. An amount of minus zero is simply zero. Texts that are refused today are still refused in the same way.',
    {
      reproduction: '```python\nfrom tally.money import parse_amount\n\nprint(parse_amount("-0.50"))\n```',
      actual: 'It prints 50. It should print -50.',
    },
  ),
  2: draft(
    'An amount can be split by weights without losing a cent',
    'People who share a bill want to split an amount into parts. Dividing by hand loses cents: three thirds of 1.00 come to 0.99. The library has no function for it, so that everybody writes one of their own, and most of these are wrong for debts or for weights that differ.',
    'A new function of the package takes an amount in cents and a list of whole weights, and returns a list with one share in cents for each weight. A share is proportional to its weight, rounded towards zero, and the cents that are left over then go to the first shares that have a weight, one cent each, so that the shares always add up to the amount exactly. A weight of zero gets nothing. A negative amount is split like a positive one, with the sign put back. No weights at all, a negative weight, or weights that add up to zero raise a ValueError. The function can be imported from the package itself.',
  ),
  3: draft(
    'Amounts of a ledger can have a currency',
    'A ledger knows one currency only. People who travel need others, and today a line with 12.50EUR is refused as not being an amount.',
    `An amount in a line of a ledger may end in capital letters without a blank: those are its currency, and an amount without any has an empty one. A function of the package splits such a text into the number, still as text, and the currency. An entry carries its currency, and the field has an empty text as its default.

A ledger never adds up different currencies. Asking for one balance, or for all balances, takes a currency as an optional last argument, which is empty by default, and counts entries of that currency alone. A ledger also tells its currencies as a sorted list, each once, with the empty one among them if some entry has none.

Formatting an amount takes a currency as an optional second argument, and puts it behind the number after one blank if it is not empty. The report of balances goes through the currencies in sorted order, and shows for each the accounts of that currency with the currency behind the amount, in columns of the same width as today.`,
  ),
  4: draft(
    'The report of balances is sorted and ends with what moved',
    'The report lists accounts in the order in which they first appear in the ledger. With more than a handful of accounts nobody finds anything in it. People also ask how much was moved in total, which the report does not say.',
    `Within each currency the accounts of the report are sorted by name. After the accounts of a currency follows one more line of the same columns with the word moved as its name, and as its amount the sum of the absolute amounts of all entries of that currency, with the currency behind it where there is one. An empty ledger still gives an empty report. The order of currencies stays as it is.`,
  ),
  5: draft(
    'A clipped text can be wider than its column',
    'Texts that are too long for a column of a report are cut, and three dots show that something is missing. In a column of three characters or fewer the dots alone need all the room, and the arithmetic goes wrong: the result is longer than the column, and for very narrow columns it even has letters from the end of the text cut off instead of from its beginning. The whole table is then out of line.',
    'The result is never longer than the width that was asked for. Where the column is too narrow to hold a letter and three dots, that is up to a width of three, the text is just cut at the width, without dots. A width of zero gives an empty text. Wider columns behave as today.',
  ),
  30: draft(
    'Percentages are cut instead of rounded',
    'The function that writes one number as a percentage of another cuts off everything behind the whole percent. Two thirds come out as 66%, although 67% is nearer, and the shares in a summary seem to add up to less than they should.',
    'A percentage is rounded to the nearest whole percent, so that two thirds are 67% and one third is 33%. The result is still a text with a percent sign behind the number. A part of nothing, where the whole is zero, is still shown as a dash, because there is no sensible number to show.',
    { reproduction: '```python\nfrom tally.text import percent\n\nprint(percent(2, 3))\n```' },
  ),
  31: draft(
    'Comments in a ledger cannot be indented',
    'Lines of a ledger that begin with a hash sign are comments and are left out. People who group their entries like to indent comments together with them. Such a line, with blanks or a tab before the hash sign, is taken for an entry, and reading the whole ledger ends with an error about a line that is no entry.',
    'A line whose first character after any white space is a hash sign is a comment, wherever that sign stands. Empty lines and lines of nothing but white space are left out as today, and entries may be indented too. A hash sign further on in an entry, such as in a note, does not make it a comment.',
  ),
  57: draft(
    'Debts can be told by name',
    'Tools that show entries of a ledger want to mark those that stand for a debt, that is, entries whose amount in cents is negative. Every tool compares the amount by itself, and each of them uses another word for it in what it shows, so that two reports of the same ledger cannot be compared with each other.',
    'A new module of the package has one function that takes an entry and returns a text: the word debts if the cents of the entry are negative, and an empty text otherwise. It looks at the cents of what it is given and at nothing else, so that anything with such a field can be passed to it.',
  ),
}
