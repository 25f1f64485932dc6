import { type ComparisonLab, p95, untilState, withLab } from './comparisons.ts'
import { atMost, type BenchMeasurement, milliseconds, note } from './measure.ts'
import { withPostgres } from './postgres.ts'

const MODELS = 12
const HARNESSES = 5
const ATTEMPTS = 3
const CHANGES = 40
const QUOTES = 40

export const comparisonStatisticsBench: BenchMeasurement = {
  name: 'Statistics of a comparison',
  about: `Status with rank, frontier probability, cost intervals and answer for ${MODELS * HARNESSES} settings × 500 tasks × ${ATTEMPTS} attempts, read through the API. Unchanged, then ${CHANGES} times after one more result. Then ${QUOTES} quotes of the same comparison, which read the cost and the duration of these trials.`,
  run: () =>
    withPostgres((url) =>
      withLab(url, async (lab) => {
        const { id } = await lab.create(MODELS, HARNESSES, ATTEMPTS)
        await untilState(lab, id, 'running')
        await score(lab, id)
        const first = await timeRead(lab, id)
        const unchanged = await p95(lab, id)
        const changed: number[] = []
        for (let n = 0; n < CHANGES; n++) {
          await change(lab, id, n)
          changed.push(await timeRead(lab, id))
        }
        const quotes: number[] = []
        for (let n = 0; n < QUOTES; n++) quotes.push(await timeQuote(lab))
        return [
          atMost('status with all statistics, unchanged, p95', unchanged, 50, milliseconds),
          atMost('status with all statistics, after a change, p95', pickP95(changed), 500, milliseconds),
          atMost('quote, p95', pickP95(quotes), 200, milliseconds),
          note('the first read, which starts the thread', milliseconds(first)),
        ]
      }),
    ),
}

const pickP95 = (times: readonly number[]): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? Number.NaN

/** Scores every trial: tasks and settings differ in how many pass, and costs and durations vary. */
async function score({ pool }: ComparisonLab, id: string): Promise<void> {
  await pool.query(
    `update trials set state = case when (task * 37 + setting * 11 + attempt * 5) % 100 < 20 + setting then 'passed' else 'failed' end,
       cost_micros = 1000 * (1 + setting) + (task * 7919) % 5000, started_at = now() - make_interval(secs => 60 + task),
       finished_at = now(), changed = pg_current_xact_id()
     where comparison = (select key from comparisons where id = $1)`,
    [id],
  )
  await pool.query(`update comparisons set started_at = now() where id = $1`, [id])
  await pool.query('vacuum analyze trials')
}

const change = ({ pool }: ComparisonLab, id: string, task: number) =>
  pool.query(
    `update trials set cost_micros = cost_micros + 1, changed = pg_current_xact_id()
     where comparison = (select key from comparisons where id = $1) and setting = 0 and task = $2`,
    [id, task],
  )

async function timeQuote(lab: ComparisonLab): Promise<number> {
  const started = performance.now()
  const { perSetting } = await lab.quote(MODELS, HARNESSES, ATTEMPTS)
  const took = performance.now() - started
  if (!perSetting.every(({ durationSource }) => durationSource === 'measured'))
    throw new Error('The quote does not use the durations of earlier trials.')
  return took
}

async function timeRead(lab: ComparisonLab, id: string): Promise<number> {
  const started = performance.now()
  const { answer } = await lab.read(id)
  if (!answer) throw new Error('The status has no answer.')
  return performance.now() - started
}
