import type { Control } from './canary.ts'

/** True of the code, part of the matter, and no help: nobody may turn a task down for it. */
export const controls: readonly Control[] = [
  { name: 'what stays is said', task: 'tally-1', adds: 'Amounts of one unit and more are read as they are today.' },
  { name: 'an example of ours', task: 'tally-2', adds: 'For example, 10.01 in two equal parts is 5.01 and 5.00.' },
  { name: 'where it is used', task: 'tally-5', adds: 'The report of balances cuts names of accounts this way.' },
  { name: 'what is not asked for', task: 'tally-30', adds: 'Places behind the dot are not asked for.' },
  { name: 'an example with a tab', task: 'tally-31', adds: 'A tab and then a hash sign begin a comment as well.' },
  { name: 'an example of a value', task: 'waymark-1', adds: 'For example, a=b=c is the name a with the value b=c.' },
  { name: 'what a link is for', task: 'waymark-2', adds: 'What it returns can be given to a browser as it is.' },
  { name: 'an example of slashes', task: 'waymark-3', adds: 'For example, /a//b/ is the same path as /a/b.' },
  {
    name: 'an example of minutes',
    task: 'cadence-1',
    adds: 'For example, midnight is in 22:00-06:00, and 06:00 is not.',
  },
  { name: 'an example of a day', task: 'cadence-3', adds: 'For example, MON, Mon and mon are the same day.' },
  { name: 'an example of a sum', task: 'quill-1', adds: 'For example, 8 - 3 - 2 - 1 is 2.' },
  { name: 'an example of names', task: 'quill-3', adds: 'For example, the names of y * (x + y) are x and y.' },
]
