import type { Edits } from './repository.ts'

/** A plausible solution of a good pull request that violates a sentence of its instruction. */
export type PlantedSolution = {
  repository: 'tally' | 'waymark' | 'cadence'
  pull: number
  /** Violated sentence, or part of it, as the instruction has it. */
  sentence: string
  /** Edits of the tree after the pull request. */
  edits: Edits
}

/** Wrong solutions that the tests of the pull requests should notice. */
export const wrongSolutions: readonly PlantedSolution[] = [
  {
    repository: 'tally',
    pull: 1,
    sentence: 'A minus in front of an amount always makes it negative, however small it is.',
    edits: { 'tally/money.py': [['sign * (abs(int(whole)) * 100 + cents)', 'sign * abs(int(whole)) * 100 + cents']] },
  },
  {
    repository: 'tally',
    pull: 1,
    sentence: 'A minus in front of an amount always makes it negative, however small it is.',
    edits: { 'tally/money.py': [['-1 if whole.startswith("-") else 1', '-1 if int(whole) < 0 else 1']] },
  },
  {
    repository: 'tally',
    pull: 2,
    sentence: 'go to the first shares that have a weight',
    edits: { 'tally/money.py': [['        if left and weight:', '        if left:']] },
  },
  {
    repository: 'tally',
    pull: 2,
    sentence: 'A negative amount is split like a positive one, with the sign put back.',
    edits: { 'tally/money.py': [['    return [sign * share for share in shares]', '    return shares']] },
  },
  {
    repository: 'tally',
    pull: 2,
    sentence: 'weights that add up to zero raise a ValueError',
    edits: { 'tally/money.py': [[' or sum(weights) == 0:', ':']] },
  },
  {
    repository: 'tally',
    pull: 3,
    sentence: 'counts entries of that currency alone',
    edits: { 'tally/ledger.py': [['            if entry.currency != currency:\n                continue\n', '']] },
  },
  {
    repository: 'tally',
    pull: 3,
    sentence: 'puts it behind the number after one blank if it is not empty',
    edits: { 'tally/money.py': [['f"{number} {currency}"', 'f"{number}{currency}"']] },
  },
  {
    repository: 'tally',
    pull: 3,
    sentence: 'may end in capital letters without a blank: those are its currency',
    edits: {
      'tally/money.py': [
        [
          'text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")',
          'text[:-3] if text[-3:].isalpha() and text[-3:].isupper() else text',
        ],
      ],
    },
  },
  {
    repository: 'tally',
    pull: 4,
    sentence: 'Within each currency the accounts of the report are sorted by name.',
    edits: {
      'tally/report.py': [
        [
          'sorted(ledger.balances(currency).items())',
          'sorted(ledger.balances(currency).items(), key=lambda item: -item[1])',
        ],
      ],
    },
  },
  {
    repository: 'tally',
    pull: 5,
    sentence: 'up to a width of three, the text is just cut at the width, without dots',
    edits: { 'tally/text.py': [['    if width <= 3:', '    if width < 3:']] },
  },
  {
    repository: 'waymark',
    pull: 1,
    sentence: 'all further ones belong to the value',
    edits: { 'src/query.ts': [["rest.join('=')", "rest.join('')"]] },
  },
  {
    repository: 'waymark',
    pull: 1,
    sentence: 'A plus sign in a name or a value stands for a blank.',
    edits: { 'src/query.ts': [["pair.replaceAll('+', ' ')", "pair.replace('+', ' ')"]] },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'encoded for use in one part of a path',
    edits: { 'src/link.ts': [["kind === 'rest' ? value : encodeURIComponent(value)", 'value']] },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'without encoding, so that its slashes stay',
    edits: { 'src/link.ts': [["kind === 'rest' ? value : encodeURIComponent(value)", 'encodeURIComponent(value)']] },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'an error whose message has the name followed by the words is missing',
    edits: { 'src/link.ts': [["'link: ' + text + ' is missing'", "'link: a value is missing for ' + text"]] },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'Values that the pattern does not use become the query',
    edits: { 'src/link.ts': [['    left.delete(text)\n', '']] },
  },
  {
    repository: 'waymark',
    pull: 3,
    sentence: 'several slashes in a row count as one',
    edits: {
      'src/segments.ts': [
        ["path.split('/').filter((part) => part !== '')", "path.replace(/(.)\\/$/, '$1').split('/').slice(1)"],
      ],
    },
  },
  {
    repository: 'waymark',
    pull: 3,
    sentence: 'Slashes at the end of a path or of a pattern make no difference',
    edits: { 'src/segments.ts': [['return parts(pattern).map(', "return pattern.split('/').slice(1).map("]] },
  },
  {
    repository: 'waymark',
    pull: 4,
    sentence: 'in large or small letters',
    edits: { 'src/method.ts': [['word.toUpperCase()', 'word']] },
  },
  {
    repository: 'waymark',
    pull: 4,
    sentence: 'When no route fits the path, the answer is the same as today.',
    edits: { 'src/router.ts': [['    let isKnown = false\n', '    let isKnown = this.routes.length > 0\n']] },
  },
  {
    repository: 'cadence',
    pull: 1,
    sentence: 'the first minute is in it, and the last one is not',
    edits: {
      'window/window.go': [['return minute >= w.From || minute < w.To', 'return minute >= w.From || minute <= w.To']],
    },
  },
  {
    repository: 'cadence',
    pull: 1,
    sentence: 'it has all minutes from its first one to the end of the day',
    edits: {
      'window/window.go': [['return minute >= w.From || minute < w.To', 'return minute > w.From || minute < w.To']],
    },
  },
  {
    repository: 'cadence',
    pull: 2,
    sentence: 'takes all jobs of a given name off it',
    edits: { 'queue/queue.go': [['		if job.Name == name {\n', '		if job.Name == name && removed == 0 {\n']] },
  },
  {
    repository: 'cadence',
    pull: 2,
    sentence: 'returns the job that is due first without taking it',
    edits: { 'queue/queue.go': [['	return q.jobs[0], true\n', '	return heap.Pop(&q.jobs).(Job), true\n']] },
  },
  {
    repository: 'cadence',
    pull: 3,
    sentence: 'the first moment strictly after the given one',
    edits: { 'schedule/schedule.go': [['for !next.After(after) ||', 'for next.Before(after) ||']] },
  },
  {
    repository: 'cadence',
    pull: 3,
    sentence: 'in large or small letters',
    edits: {
      'schedule/days.go': [['strings.EqualFold(text, day.String()[:3])', 'text == strings.ToLower(day.String()[:3])']],
    },
  },
  {
    repository: 'cadence',
    pull: 3,
    sentence: 'A day that is not known, or a missing one, is an error',
    edits: {
      'schedule/days.go': [
        ['	return 0, fmt.Errorf("not a day: %q", text)\n', '	return time.Sunday, nil\n'],
        ['	"fmt"\n', ''],
      ],
    },
  },
  {
    repository: 'cadence',
    pull: 4,
    sentence: 'also when it goes over midnight',
    edits: { 'window/window.go': [['return (w.To - minute + 1440) % 1440', 'return w.To - minute']] },
  },
  {
    repository: 'cadence',
    pull: 4,
    sentence: 'A schedule of any kind may end in the word quiet',
    edits: { 'schedule/schedule.go': [['return s.putOff(after.Add(s.Step))', 'return after.Add(s.Step)']] },
  },
  {
    repository: 'cadence',
    pull: 4,
    sentence: 'A window that cannot be read makes the whole schedule an error.',
    edits: { 'schedule/quiet.go': [['		return nil, err\n', '		return nil, nil\n']] },
  },
]

/** Wrong solutions that the tests are known to accept. Only the question to the verifier model can find these. */
export const knownGaps: readonly PlantedSolution[] = [
  {
    repository: 'tally',
    pull: 2,
    sentence: 'a negative weight',
    edits: {
      'tally/money.py': [['not weights or min(weights) < 0 or sum(weights) == 0', 'not weights or sum(weights) == 0']],
    },
  },
  {
    repository: 'tally',
    pull: 4,
    sentence: 'the sum of the absolute amounts of all entries of that currency',
    edits: { 'tally/ledger.py': [['sum(abs(entry.cents) for entry', 'sum(entry.cents for entry']] },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'encoded for use in one part of a path',
    edits: {
      'src/link.ts': [
        ["kind === 'rest' ? value : encodeURIComponent(value)", "kind === 'rest' ? value : encodeURI(value)"],
      ],
    },
  },
  {
    repository: 'waymark',
    pull: 2,
    sentence: 'A value that is missing or empty is an error',
    edits: { 'src/link.ts': [["value === undefined || value === ''", 'value === undefined']] },
  },
  {
    repository: 'cadence',
    pull: 2,
    sentence: 'The order of the jobs that stay does not change.',
    edits: { 'queue/queue.go': [['	q.jobs = kept\n	heap.Init(&q.jobs)\n', '	q.jobs = kept\n']] },
  },
]
