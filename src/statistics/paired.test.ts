import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type AlignedScores,
  alignScores,
  computeReliability,
  estimateDifference,
  isShownWorse,
  type Score,
  type Scores,
  testDifference,
} from './paired.ts'
import { computeRanks } from './pairs.ts'
import { oneSidedPValue, quantile, twoSidedPValue } from './student.ts'

/** One pair of digits for each task: trials and passes. `.` stands for a task that the setting does not have. */
const scores = (...tasks: (string | undefined)[]): Scores =>
  new Map(
    tasks.flatMap((text, task): [string, Score][] =>
      text ? [[`task ${task}`, { trials: Number(text[0]), passes: Number(text[1]) }]] : [],
    ),
  )

function tracks(a: Scores, b: Scores): [AlignedScores, AlignedScores] {
  const [first, second] = alignScores([a, b])
  if (!first || !second) throw new Error('There are two tracks.')
  return [first, second]
}

const cells = fc.option(
  fc.integer({ min: 1, max: 4 }).chain((trials) => fc.nat(trials).map((passes) => `${trials}${passes}`)),
  { nil: undefined, freq: 6 },
)
const pairs = fc.array(fc.tuple(cells, cells), { maxLength: 12 })

/** The interval of Bonett and Price, written down as it is defined: two made-up tasks, one for each side. */
function reference(a: Scores, b: Scores) {
  const shared = [...a.keys()].flatMap((task) => {
    const [one, other] = [a.get(task), b.get(task)]
    return one && other ? [{ one, other }] : []
  })
  if (shared.length < 5) return undefined
  const share = ({ passes, trials }: Score) => passes / trials
  const attempts = Math.min(...shared.flatMap(({ one, other }) => [one.trials, other.trials]))
  const gaps = shared.map(({ one, other }) => share(one) - share(other))
  const all = [...gaps, 1 / attempts, -1 / attempts]
  const mean = all.reduce((sum, gap) => sum + gap, 0) / all.length
  const variance = all.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / (all.length - 1)
  const error = Math.sqrt(variance / all.length)
  return { gaps, mean, error, degrees: all.length - 1, t: mean / error }
}

test('the difference has the interval of Bonett and Price over the tasks that both settings have', () => {
  fc.assert(
    fc.property(pairs, (all) => {
      const [a, b] = [scores(...all.map(([one]) => one)), scores(...all.map(([, other]) => other))]
      const expected = reference(a, b)
      const found = estimateDifference(...tracks(a, b))
      expect(found === undefined).toBe(expected === undefined)
      if (!expected) return
      const half = quantile(0.05, expected.degrees) * expected.error
      const { gaps } = expected
      expect(found).toEqual({
        tasks: gaps.length,
        mean: expect.closeTo(gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length, 9),
        low: expect.closeTo(Math.max(-1, expected.mean - half), 9),
        high: expect.closeTo(Math.min(1, expected.mean + half), 9),
        wins: gaps.filter((gap) => gap > 0).length,
        losses: gaps.filter((gap) => gap < 0).length,
        ties: gaps.filter((gap) => gap === 0).length,
      })
    }),
  )
})

test('the p-value is two-sided, and a setting is shown worse below 5 % one-sided', () => {
  fc.assert(
    fc.property(pairs, (all) => {
      const [a, b] = [scores(...all.map(([one]) => one)), scores(...all.map(([, other]) => other))]
      const expected = reference(a, b)
      const found = testDifference(...tracks(a, b))
      expect(found === undefined).toBe(expected === undefined)
      if (!expected) expect(isShownWorse(...tracks(a, b))).toBe(false)
      if (!expected) return
      expect(found?.probability).toBeCloseTo(twoSidedPValue(expected.t, expected.degrees), 9)
      if (Math.abs(expected.mean) > 1e-9) expect(found?.isBetter).toBe(expected.mean > 0)
      expect(isShownWorse(...tracks(a, b))).toBe(oneSidedPValue(-expected.t, expected.degrees) < 0.05)
    }),
  )
})

test('an interval stays within the range of differences', () => {
  const [all, none] = [scores(...Array<string>(5).fill('11')), scores(...Array<string>(5).fill('10'))]
  expect(estimateDifference(...tracks(all, none))).toMatchObject({ mean: 1, high: 1, wins: 5, losses: 0, ties: 0 })
  expect(estimateDifference(...tracks(none, all))).toMatchObject({ mean: -1, low: -1, wins: 0, losses: 5, ties: 0 })
})

test('a setting that fails where the other passes is shown worse, and not vice versa', () => {
  const [hard, better] = [
    scores('30', '30', '31', '31', '32', '32', '33', '33'),
    scores('31', '31', '32', '32', '33', '33', '33', '33'),
  ]
  expect(isShownWorse(...tracks(hard, better))).toBe(true)
  expect(isShownWorse(...tracks(better, hard))).toBe(false)
})

test('a setting is not better than one with identical results', () => {
  const same = scores('31', '32', '30', '33', '31')
  expect(testDifference(...tracks(same, same))).toEqual({ probability: 1, isBetter: false })
  expect(isShownWorse(...tracks(same, same))).toBe(false)
})

test('tasks have the same index in all tracks, and a missing task is NaN', () => {
  const found = alignScores([
    new Map([['x', { trials: 2, passes: 1 }]]),
    new Map([
      ['y', { trials: 4, passes: 1 }],
      ['x', { trials: 3, passes: 3 }],
    ]),
  ])
  expect(found.map(({ shares }) => [...shares])).toEqual([
    [0.5, Number.NaN],
    [1, 0.25],
  ])
  expect(found.map(({ trials }) => [...trials])).toEqual([
    [2, 0],
    [3, 4],
  ])
  expect(alignScores([])).toEqual([])
})

/** All pairs of settings that were tested, the surest first, each as winner and loser. */
function testedPairs(settings: readonly Scores[]) {
  const pairs = settings.flatMap((a, one) =>
    settings.slice(one + 1).map((b, offset) => ({ a, b, one, other: one + 1 + offset })),
  )
  return pairs
    .flatMap(({ a, b, one, other }) => {
      const found = testDifference(...tracks(a, b))
      return found ? [{ probability: found.probability, pair: found.isBetter ? [one, other] : [other, one] }] : []
    })
    .sort((a, b) => a.probability - b.probability)
}

describe('ranks', () => {
  const many = (text: string, count = 30) => scores(...Array<string>(count).fill(text))

  test('are exact if every pair differs', () => {
    expect(computeRanks([many('30'), many('33'), many('31')])).toEqual([
      { best: 3, worst: 3 },
      { best: 1, worst: 1 },
      { best: 2, worst: 2 },
    ])
  })

  test('are shared if no difference is significant', () => {
    const room = { best: 1, worst: 3 }
    expect(computeRanks([many('31'), many('31'), many('31')])).toEqual([room, room, room])
    expect(computeRanks([many('33', 4), many('30', 4), many('31', 4)])).toEqual([room, room, room])
  })

  describe('of a difference that 5 % shows alone but not a third of it', () => {
    const better = (wins: number) => scores(...Array.from({ length: 20 }, (_, task) => (task < wins ? '11' : '10')))
    const isClaimed = (wins: number) => computeRanks([better(wins), better(0)])[0]?.worst === 1
    const fewest = Array.from({ length: 20 }, (_, wins) => wins).find(isClaimed) ?? 0

    test('are separated when it is the only pair', () => {
      const { probability } = testDifference(...tracks(better(fewest), better(0))) ?? { probability: 1 }
      expect(probability).toBeLessThan(0.05)
      expect(probability).toBeGreaterThan(0.05 / 3)
    })

    test('are not separated if it is the most significant of three pairs', () => {
      const room = { best: 1, worst: 3 }
      expect(computeRanks([better(fewest), better(0), better(0)])).toEqual([room, room, room])
    })

    test('are separated if the other two of three pairs are more significant', () => {
      expect(computeRanks([better(20), better(fewest), better(0)])).toEqual([
        { best: 1, worst: 1 },
        { best: 2, worst: 2 },
        { best: 3, worst: 3 },
      ])
    })

    test('are separated next to a setting with too few tasks to be tested', () => {
      expect(computeRanks([better(fewest), better(0), many('11', 2)])).toEqual([
        { best: 1, worst: 2 },
        { best: 2, worst: 3 },
        { best: 1, worst: 3 },
      ])
    })
  })

  test('follow Holm: claims are accepted from the most significant until the first failure', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.nat(3), { minLength: 8, maxLength: 8 }), { minLength: 2, maxLength: 4 }),
        (all) => {
          const settings = all.map((passes) => scores(...passes.map((count) => `3${count}`)))
          const claims = testedPairs(settings)
          const failed = claims.findIndex(({ probability }, index) => probability > 0.05 / (claims.length - index))
          const taken = failed === -1 ? claims : claims.slice(0, failed)
          const expected = settings.map((_, setting) => ({
            best: 1 + taken.filter(({ pair }) => pair[1] === setting).length,
            worst: settings.length - taken.filter(({ pair }) => pair[0] === setting).length,
          }))
          expect(computeRanks(settings)).toEqual(expected)
        },
      ),
    )
  })
})

describe('reliability', () => {
  test('requires two trials of every task', () => {
    expect(computeReliability([])).toBeNull()
    expect(
      computeReliability([
        { trials: 3, passes: 3 },
        { trials: 1, passes: 1 },
      ]),
    ).toBeNull()
    expect(computeReliability([{ trials: 2, passes: 1 }])?.trials).toBe(2)
  })

  test('counts tasks that pass always, sometimes and never', () => {
    const found = computeReliability([
      { trials: 2, passes: 2 },
      { trials: 3, passes: 3 },
      { trials: 3, passes: 2 },
      { trials: 2, passes: 1 },
      { trials: 3, passes: 1 },
      { trials: 2, passes: 0 },
    ])
    expect(found).toMatchObject({ trials: 2, always: 2, sometimes: 3, never: 1 })
  })

  test('pass^k is the share of k-subsets of trials that all passed, for k from 2 to the minimum number of trials', () => {
    const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n - 1, k - 1) * n) / k)
    const score = fc.integer({ min: 2, max: 6 }).chain((trials) => fc.nat(trials).map((passes) => ({ trials, passes })))
    fc.assert(
      fc.property(fc.array(score, { minLength: 1, maxLength: 5 }), (all) => {
        const fewest = Math.min(...all.map(({ trials }) => trials))
        const found = computeReliability(all)?.passPower
        expect(found?.map(({ k }) => k)).toEqual(Array.from({ length: fewest - 1 }, (_, index) => index + 2))
        for (const { k, percent } of found ?? []) {
          const shares = all.map(({ trials, passes }) => (passes < k ? 0 : choose(passes, k) / choose(trials, k)))
          expect(percent).toBeCloseTo((100 * shares.reduce((sum, share) => sum + share, 0)) / all.length, 9)
        }
      }),
    )
  })
})
