import { type ComparisonLab, p95, untilState, withLab } from './comparisons.ts'
import { atMost, type BenchMeasurement, milliseconds, note } from './measure.ts'
import { withPostgres } from './postgres.ts'

const MODELS = 12
const HARNESSES = 5
const ATTEMPTS = 3
const CHANGES = 40

export const comparisonStatisticsBench: BenchMeasurement = {
  name: 'Statistics of a comparison',
  about: `Status with rank, frontier probability, cost intervals and answer for ${MODELS * HARNESSES} settings × 500 tasks × ${ATTEMPTS} attempts, read through the API. Unchanged, then ${CHANGES} times after one more result.`,
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
        const slowest = changed.sort((a, b) => a - b)[Math.floor(CHANGES * 0.95)] ?? Number.NaN
        return [
          atMost('status with all statistics, unchanged, p95', unchanged, 50, milliseconds),
          atMost('status with all statistics, after a change, p95', slowest, 500, milliseconds),
          note('the first read, which starts the thread', milliseconds(first)),
        ]
      }),
    ),
}

/** Scores every trial: tasks and settings differ in how many pass, and costs vary. */
async function score({ pool }: ComparisonLab, id: string): Promise<void> {
  await pool.query(
    `update trials set state = case when (task * 37 + setting * 11 + attempt * 5) % 100 < 20 + setting then 'passed' else 'failed' end,
       cost_micros = 1000 * (1 + setting) + (task * 7919) % 5000, changed = pg_current_xact_id()
     where comparison = (select key from comparisons where id = $1)`,
    [id],
  )
  await pool.query('vacuum analyze trials')
}

const change = ({ pool }: ComparisonLab, id: string, task: number) =>
  pool.query(
    `update trials set cost_micros = cost_micros + 1, changed = pg_current_xact_id()
     where comparison = (select key from comparisons where id = $1) and setting = 0 and task = $2`,
    [id, task],
  )

async function timeRead(lab: ComparisonLab, id: string): Promise<number> {
  const started = performance.now()
  const { answer } = await lab.read(id)
  if (!answer) throw new Error('The status has no answer.')
  return performance.now() - started
}
