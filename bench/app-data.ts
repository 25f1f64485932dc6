import { Readable } from 'node:stream'
import type pg from 'pg'
import { formatTrialId } from '../src/comparisons/plan.ts'
import { openBlobs } from '../src/platform/blobs/blobs.ts'
import { call } from '../src/platform/http/client.ts'
import { connectRepository } from '../src/repos/schema.ts'
import { insertApprovedTasks, insertComparison } from '../test/support/releases.ts'

const PLACE = { org: 'local', owner: 'lab', name: 'demo' }
export const TASKS = 300
export const SETTINGS = 60
export const EVENTS = 50_000
const LOG_BYTES = 100_000_000

/** Builds a trajectory with two events per step: a call of a tool and its result. */
function buildTrajectory(events: number): object {
  const output = (step: number) =>
    step % 10 === 0
      ? 'ValueError: no such column'
      : `tests/test_rounding.py::test_case_${step} PASSED [${step % 100} %]\n`.repeat(3)
  return {
    schema_version: 'ATIF-v1.7',
    session_id: 'bench',
    agent: { name: 'mini', version: '1', model_name: 'scripted' },
    steps: Array.from({ length: events / 2 }, (_, index) => ({
      step_id: index + 1,
      timestamp: new Date(1_700_000_000_000 + 1000 * index).toISOString(),
      source: 'agent',
      message: '',
      tool_calls: [
        { tool_call_id: `call-${index}`, function_name: 'shell', arguments: { command: `pytest -x -k case_${index}` } },
      ],
      observation: { results: [{ source_call_id: `call-${index}`, content: output(index) }] },
      metrics: { prompt_tokens: 1200, completion_tokens: 80, cost_usd: 0.012 },
    })),
  }
}

/** Inserts a running comparison and a trial with a long trajectory, a long log and a patch. */
export async function insertAppData(client: { url: string; key: string }, pool: pg.Pool, dataFolder: string) {
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await call(client, connectRepository, { params: PLACE, body: { source, visibility: 'public' } })
  const { rows } = await pool.query('select key, workspace_id from repositories where name = $1', [PLACE.name])
  const digests = await insertApprovedTasks(pool, rows[0].key, TASKS)
  const where = { workspaceId: rows[0].workspace_id, repository: rows[0].key, ...PLACE, digests }
  const settings = Array.from({ length: SETTINGS }, (_, index) => ({
    id: `acme/model-${index}|mini|high`,
    label: `Model ${index}`,
    cells: Array.from({ length: TASKS }, (__, task) =>
      (task * 7 + index * 13) % 97 < 40 + index / 2 ? 'p' : 'f',
    ).join(''),
    micros: 1000 * (index + 1),
    seconds: 60,
  }))
  const comparison = await insertComparison(pool, where, settings)
  await countTrials(pool, comparison)
  const { rows: found } = await pool.query(`update comparisons set state = 'running' where key = $1 returning id`, [
    comparison,
  ])
  await storeFiles(pool, comparison, dataFolder)
  return {
    comparison,
    comparisonPath: `/app/repos/${PLACE.owner}/${PLACE.name}/comparisons/${found[0].id}`,
    trialPath: `/app/trials/${formatTrialId({ comparison, ordinal: 1 })}`,
  }
}

const countTrials = (pool: pg.Pool, comparison: number) =>
  pool.query(
    `insert into trial_counts (comparison, setting, part, passed, failed, queued, tasks, tasks_passed, tasks_micros, shares, share_squares)
     select comparison, setting, 0, count(*) filter (where state = 'passed'), count(*) filter (where state = 'failed'), 10,
       count(*), count(*) filter (where state = 'passed'), sum(cost_micros),
       2520 * count(*) filter (where state = 'passed'), 2520 * 2520 * count(*) filter (where state = 'passed')
     from trials where comparison = $1 group by comparison, setting`,
    [comparison],
  )

/** Changes the state of a trial, as its end would. Watchers of the comparison see it. */
export const changeTrial = (pool: pg.Pool, comparison: number, round: number) =>
  pool.query(
    `with changed as (
       update trials set state = case state when 'passed' then 'failed' else 'passed' end
       where comparison = $1 and task = $2 and setting = $3 returning state)
     update trial_counts set passed = passed + case changed.state when 'passed' then 1 else -1 end
     from changed where comparison = $1 and setting = $3`,
    [comparison, round % TASKS, round % SETTINGS],
  )

/** Stores files of the first trial in one blob, as the engine does. Nothing truncates the log. */
async function storeFiles(pool: pg.Pool, comparison: number, dataFolder: string): Promise<void> {
  const line = '2026-11-16T12:00:00.000Z INFO worker 17 compiled module src/billing/money.py in 41 ms\n'
  const files = [
    { name: 'agent.log', mediaType: 'text/plain; charset=utf-8', content: line.repeat(LOG_BYTES / line.length) },
    { name: 'changes.patch', mediaType: 'text/plain; charset=utf-8', content: buildPatch() },
    { name: 'trajectory.json', mediaType: 'application/json', content: JSON.stringify(buildTrajectory(EVENTS)) },
  ]
  let offset = 0
  const artifacts = files.map(({ name, mediaType, content }) => {
    const artifact = { name, mediaType, bytes: content.length, offset }
    offset += content.length
    return artifact
  })
  const blobs = openBlobs(`file:${dataFolder}/blobs`, `${dataFolder}/spool`)
  const { digest } = await blobs.put(Readable.from(files.map(({ content }) => Buffer.from(content))))
  await pool.query(
    `update trials set artifacts = $2, detail = detail || jsonb_build_object('artifacts', $3::jsonb) where comparison = $1 and ordinal = 1`,
    [comparison, digest, JSON.stringify(artifacts)],
  )
}

const buildPatch = (): string =>
  `--- a/billing/money.py\n+++ b/billing/money.py\n@@ -1,400 +1,400 @@\n${'-    return int(amount + 0.5)\n+    return amount.quantize(step, ROUND_HALF_EVEN)  # half to even\n'.repeat(400)}`
