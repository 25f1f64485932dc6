import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openGenerationLab, startGenerationApp } from '../../../test/support/generating.ts'

const readMigration = (name: string): string =>
  readFileSync(new URL(`../../../migrations/${name}`, import.meta.url), 'utf8')

/** Applies to today's tables, in which the column `kind` of jobs is called `type`. */
const MIGRATION = readMigration('0030_stage_names.sql').replaceAll(/\bkind\b/g, 'type')

/** Restores the names that stages had before the migration. */
const UNDO = MIGRATION.replaceAll('new from stage_names where stage = old', 'old from stage_names where stage = new')

test('the migration of stage names keeps the evidence of tasks created before it', async () => {
  await using app = await startGenerationApp()
  const lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 } })
  const { runId, tasks } = await lab.made({ easy: 1 })
  const before = await lab.task(runId, tasks[0].taskId)
  const { pool } = app.database
  await pool.query(UNDO)
  const { rows } = await pool.query('select stage from batch_task_stages')
  expect(rows).toContainEqual({ stage: 'env_ready' })
  await pool.query(MIGRATION)
  expect(await lab.task(runId, tasks[0].taskId)).toEqual(before)
  expect(before.evidence.stages).toHaveLength(9)
})

test('the migration of stage outputs keeps the results that later tasks reuse', async () => {
  await using app = await startGenerationApp()
  const lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 } })
  await lab.made({ easy: 1 })
  const { pool } = app.database
  const readResults = async () => (await pool.query('select * from batch_stage_results order by stage')).rows
  const before = await readResults()
  await pool.query(
    `update batch_stage_results set result = (result - 'output') || jsonb_build_object('made', result -> 'output')`,
  )
  expect((await readResults())[0].result).toHaveProperty('made')
  await pool.query(readMigration('0041_stage_output.sql'))
  expect(await readResults()).toEqual(before)
})
