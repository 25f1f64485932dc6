import { type Drafts, draft } from '../draft.ts'

export const drafts: Drafts = {
  1: draft(
    'Differences are grouped from the wrong side',
    'A line with several differences in a row gives a wrong result. Everybody reads 10 - 4 - 3 from the left and expects 3, but the library groups the line from the right, as 10 - (4 - 3), and comes to 9. Mixed lines such as 1 - 2 + 3 are wrong for the same reason, and people who noticed have begun to put brackets around everything.',
    'Sums and differences that stand beside each other are taken from the left, in the order in which they are written, just as products and quotients already are. Products still bind more strongly than sums, brackets still come before all, and a minus in front of a single value means what it means today. What cannot be read today is still refused in the same way.',
    { reproduction: '```rust\nassert_eq!(quill::eval("10 - 4 - 3", &[]), Ok(3.0));\n```' },
  ),
  2: draft(
    'Division by zero and numbers that round to whole ones',
    'Two results confuse people. Dividing by zero gives an infinite number, or one that is no number at all, which then spreads through everything that is computed from it. And showing a number that is rounded to a whole one is not reliable: it may lose zeros that belong to the number itself, or keep a dot.',
    'Evaluating a line in which something is divided by zero returns an error, whatever the zero was computed from. Its message says that nothing can be divided by 0, in these words. Zero divided by something else is zero as before. A number is shown with at most two places behind the dot and without zeros at the end of these places. When nothing but zeros would be left behind the dot, the dot is left out too, and all digits before it stay: 99.999 is shown as 100, 4.999 as 5, and zero as 0.',
  ),
  3: draft(
    'Tell which names a line needs',
    'A line may have names in it, whose values are given when it is evaluated. A form that lets people type such a line has to ask them for the values first, and there is no way to find out which names there are, short of evaluating the line again and again and reading the error about the next unknown name.',
    'A new function of the crate takes a line and returns all names in it as a list of owned strings, sorted, each of them once, however deep in brackets or behind a minus they stand. A line without names gives an empty list. A line that cannot be read returns the same error as when it is evaluated. The function can be used directly from the root of the crate.',
  ),
  4: draft(
    'Powers, percentages and very large numbers',
    'Lines can add, subtract, multiply and divide. People ask for powers and percentages, and results that are very large or very small are shown as rows of digits, or as plain zero.',
    `A caret between two values raises the first to the power of the second. It binds more strongly than products and quotients, and several in a row are taken from the right: 2 ^ 3 ^ 2 is 512. A minus before a power applies to the whole power, so that -2 ^ 2 is -4, and an exponent may itself have a minus.

A percent sign behind a single value or a bracket divides it by a hundred, and binds more strongly than a power. Both signs are pieces of a line like the other signs. Names inside of powers and percentages are found like any others when one asks which names a line needs.

A number other than zero is shown with an exponent when its absolute value is less than one hundredth or at least 1e12, in the way in which Rust itself writes a number with an exponent in small letters: 5e15, or -2e-7. All other numbers are shown as before.`,
  ),
  30: draft(
    'Square brackets around parts of a line',
    'Long lines with many round brackets inside of each other are hard to read. On paper people use square brackets for the outer ones, but a line with a square bracket in it is refused with a question about that character, so that pasted formulas have to be edited by hand before they can be evaluated.',
    'Square brackets may be used wherever round ones may, with the same meaning, and both may stand inside of each other. A bracket must be closed by the bracket of its own kind. When it is not, whether it is closed by the other kind or not at all, the line is refused with the same message as a round bracket that stays open today.',
  ),
}
