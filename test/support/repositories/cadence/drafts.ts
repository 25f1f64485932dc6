import { type Drafts, draft } from '../draft.ts'

export const drafts: Drafts = {
  1: draft(
    'Windows that go over midnight are empty',
    'A window of the day is given by its first and its last minute, as in 08:00-17:30. A window such as 22:00-06:00, which goes over midnight, can be written and is read without an error, but no minute of the day is ever in it. Jobs that should only run at night therefore never run at all, and nothing tells their owners why.',
    'When the first minute of a window is later than its last one, the window goes over midnight: it has all minutes from its first one to the end of the day, and all minutes from midnight up to its last one. As in every window the first minute is in it, and the last one is not. Windows within one day behave as before.',
  ),
  2: draft(
    'Jobs can be taken off the queue',
    'Once a job is in the queue it stays there until it is due. A job that was cancelled still comes up, and every caller has to keep a list of names to throw away. There is also no way to look at the next job without taking it, so that callers cannot tell how long they may sleep.',
    'The queue has a method that takes all jobs of a given name off it and returns how many there were, which may be none. The order of the jobs that stay does not change. Another method returns the job that is due first without taking it, together with a boolean that says whether there is one. On an empty queue it returns an empty job and false.',
  ),
  3: draft(
    'Schedules can be weekly',
    'A schedule is a fixed step or a time of every day. Reports that go out once a week need a daily schedule and a check of the weekday in the job itself, which is easily forgotten.',
    'A schedule may also be written as the word weekly, a day, and a time of the day, separated by single blanks, as in weekly mon 08:30. Days are the first three letters of their English names, in large or small letters. The next time of such a schedule is the first moment strictly after the given one that falls on that weekday at that time, in the location of the given moment. A day that is not known, or a missing one, is an error, and so is a time that is none. The other kinds of schedules behave as before.',
  ),
  4: draft(
    'Jobs wait for the end of quiet hours',
    'Some jobs must not run at certain hours of the day. Schedules cannot say that, so that such jobs wake people up at night.',
    `A schedule of any kind may end in the word quiet and a window of the day, as in daily 23:00 quiet 22:00-06:00. When the next time of the schedule falls into the window it is moved to the end of the window, and otherwise it stays. A window that cannot be read makes the whole schedule an error.

A window tells how many of its minutes are left at a minute of the day, counting that minute itself, also when it goes over midnight. At a minute that is not in the window none are left.

A job has a field that tells whether quiet hours have moved it. Among jobs that are due at the same moment those that were moved come off the queue first. In a report the line of such a job ends in a blank and the words put off in round brackets.`,
  ),
  30: draft(
    'Plurals of words that end in s are wrong',
    'The function that counts things puts an s behind the word when there is not exactly one of them. For words that already end in s, such as class or bus, this gives classs and buss in reports that customers read. Words that end in y were mended some time ago, but these were not thought of, and translators have asked for it more than once.',
    'For a count other than one, a word that ends in s gets the letters es behind it, so that two of class are two classes. The number in front of it is written in words as far as the package does that today. A count of one leaves the word as it is, and all other words get their plurals as before.',
  ),
}
