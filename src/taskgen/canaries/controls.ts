import type { CanaryControl } from './canary.ts'

/** True, relevant and harmless additions. Rejecting such a task is a false alarm. */
export const controls: readonly CanaryControl[] = [
  { name: 'what stays is said', task: 'tally-1', adds: 'Amounts of one unit and more are read as they are today.' },
  { name: 'an example of ours', task: 'tally-2', adds: 'For example, 10.01 in two equal parts is 5.01 and 5.00.' },
  {
    name: 'an example of a currency',
    task: 'tally-3',
    adds: 'For example, 7USD is the number 7 with the currency USD.',
  },
  {
    name: 'an example of an order',
    task: 'tally-4',
    adds: 'For example, the accounts zoo, art and bus are shown as art, bus and zoo.',
  },
  { name: 'where it is used', task: 'tally-5', adds: 'The report of balances cuts names of accounts this way.' },
  { name: 'what is not asked for', task: 'tally-30', adds: 'Places behind the dot are not asked for.' },
  { name: 'an example with a tab', task: 'tally-31', adds: 'A tab and then a hash sign begin a comment as well.' },
  { name: 'where it ends', task: 'tally-57', adds: 'An entry of no cents at all is no debt.' },
  { name: 'an example of a value', task: 'waymark-1', adds: 'For example, a=b=c is the name a with the value b=c.' },
  { name: 'what a link is for', task: 'waymark-2', adds: 'What it returns can be given to a browser as it is.' },
  { name: 'an example of slashes', task: 'waymark-3', adds: 'For example, /a//b/ is the same path as /a/b.' },
  {
    name: 'an example of letters',
    task: 'waymark-4',
    adds: 'For example, post /users is the same route as POST /users.',
  },
  {
    name: 'an example of minutes',
    task: 'cadence-1',
    adds: 'For example, midnight is in 22:00-06:00, and 06:00 is not.',
  },
  { name: 'what follows from it', task: 'cadence-2', adds: 'Looking at the next job twice gives the same job.' },
  { name: 'an example of a day', task: 'cadence-3', adds: 'For example, MON, Mon and mon are the same day.' },
  {
    name: 'an example at the edge',
    task: 'cadence-4',
    adds: 'For example, daily 05:59 quiet 22:00-06:00 is due at 06:00.',
  },
  { name: 'an example of a sum', task: 'quill-1', adds: 'For example, 8 - 3 - 2 - 1 is 2.' },
  { name: 'an example of zeros', task: 'quill-2', adds: 'For example, 2.50 is shown as 2.5, and 2.00 as 2.' },
  { name: 'an example of names', task: 'quill-3', adds: 'For example, the names of y * (x + y) are x and y.' },
  { name: 'an example of both signs', task: 'quill-4', adds: 'For example, 200% is 2, and 2 ^ 200% is 4.' },
]
