// Processes known pull requests from the batch request to tasks that await a decision, with real git, containers,
// test runners and gateway. Only the models are scripted.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { isLongRun } from '../support/parts.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { listCandidates, type SampleRepository } from '../support/repositories/repository.ts'
import { PROOF } from '../support/repositories/tally/hostile.ts'
import { openPipeline, type Pipeline } from './open-pipeline.ts'

vi.setConfig({ testTimeout: 3_600_000, hookTimeout: 3_600_000 })

/** Default runs process two pull requests: one that becomes a task, one whose change breaks working tests. */
const QUICK: Record<string, number[]> = { tally: [1, 11] }

const shortened = (repository: SampleRepository): SampleRepository => ({
  ...repository,
  steps: repository.steps.filter((step) => 'number' in step && QUICK[repository.name]?.includes(step.number)),
})

/** Restricts a long run to these pull requests: `ASSAY_TEST_PULLS=16,31`, with `-t tally` for a repository. */
const only = process.env.ASSAY_TEST_PULLS?.split(',').map(Number)

/** Folder for ready tasks, which `test/harbor/generated.test.ts` runs with Harbor. */
const readyFolder = process.env.ASSAY_TEST_READY_TASKS

/** Prints the progress of a long run. */
const tell = (line: string): void => void (isLongRun() && process.stdout.write(`${line}\n`))

const chosen = isLongRun() ? repositories : repositories.filter(({ name }) => name in QUICK).map(shortened)

describe.each(chosen)('$name, in $language', (repository) => {
  let pipeline: Pipeline
  beforeAll(async () => {
    pipeline = await openPipeline(repository, { only, tell: (line) => tell(`${repository.name} ${line}`) })
  })
  afterAll(() => pipeline?.[Symbol.asyncDispose]())

  test('every candidate comes to its known end', async () => {
    const isAsked = (number: number) => only === undefined || only.includes(number)
    const fates = listCandidates(repository).map(
      ({ number, expected }) => [number, isAsked(number) ? expected : 'nobody_asked'] as const,
    )
    expect(pipeline.fates).toEqual(Object.fromEntries(fates))
    expect(pipeline.run).toMatchObject({ state: 'completed', shortfall: 0 })
    expect(existsSync(PROOF)).toBe(false)
  })

  test('ready tasks are validated, charged once, and do not reveal their origin', async () => {
    const ready = pipeline.tasks.filter(({ state }) => state === 'ready')
    expect(ready.length).toBeGreaterThan(0)
    for (const { taskId, pullRequest } of ready) {
      const { instruction, evidence, files, concerns } = await pipeline.task(taskId)
      const seen = Object.fromEntries(evidence.stages.map(({ stage, evidence: found }) => [stage, found]))
      expect(seen).toMatchObject({
        execution: { failToPass: expect.arrayContaining([expect.any(String)]) },
        validation: { nop: [{ reward: 0 }], oracle: [{ reward: 1 }], gold: { reward: 1 } },
        review: { decision: { kind: 'accepted' } },
      })
      // A cheat that wins on every task of a language is a warning and does not prevent approval.
      expect(concerns.filter((each) => each.includes('cheat'))).toEqual([])
      expect(instruction).not.toMatch(/[0-9a-f]{40}|#\d|Ada|github/)
      expect(files.map(({ path }) => path)).toContain('tests/Dockerfile')
      if (readyFolder) await pipeline.unpack(taskId, join(readyFolder, `${repository.name}-${pullRequest?.number}`))
    }
    const { costUsd } = await pipeline.read()
    expect(costUsd).toBeGreaterThan(0)
    expect(costUsd).toBeCloseTo(await pipeline.billed(), 9)
  })
})
