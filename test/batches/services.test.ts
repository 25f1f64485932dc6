// Processes pull requests of a project whose tests need servers, with real git, containers and servers.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { pantry } from '../support/repositories/pantry/pantry.ts'
import { listCandidates } from '../support/repositories/repository.ts'
import { openPipeline, type Pipeline } from './open-pipeline.ts'

vi.setConfig({ testTimeout: 3_600_000, hookTimeout: 3_600_000 })

let pipeline: Pipeline
beforeAll(async () => {
  pipeline = await openPipeline(pantry)
})
afterAll(() => pipeline?.[Symbol.asyncDispose]())

const taskOf = async (number: number) => {
  const found = pipeline.tasks.find(({ pullRequest }) => pullRequest?.number === number)
  return pipeline.task(found?.taskId ?? '')
}

test('every candidate comes to its known end', () => {
  const fates = listCandidates(pantry).map(({ number, expected }) => [number, expected])
  expect(pipeline.fates).toEqual(Object.fromEntries(fates))
})

test('tests run against the servers of the CI file, and the instruction says how to start them', async () => {
  const { instruction, evidence } = await taskOf(1)
  const seen = Object.fromEntries(evidence.stages.map(({ stage, evidence: found }) => [stage, found]))
  expect(seen).toMatchObject({
    environment: {
      health: { tests: 12, passed: 12 },
      services: {
        started: [
          { service: 'postgres', image: 'postgres:16', port: 5432 },
          { service: 'redis', image: 'redis:7-alpine', port: 6379 },
        ],
        unsupported: [],
      },
    },
    execution: {
      failToPass: [
        'tests.test_shelves::test_numbers_are_summed',
        'tests.test_shelves::test_something_is_named_once_however_often_it_is_added',
      ],
    },
    validation: { nop: [{ reward: 0 }], oracle: [{ reward: 1 }] },
  })
  expect(instruction).toContain(
    '`start-services` starts these servers on 127.0.0.1: PostgreSQL on port 5432, Redis on port 6379.',
  )
})

test('a candidate whose tests need an unknown server is rejected with its name', async () => {
  const { rejection } = await taskOf(2)
  expect(rejection?.detail).toContain('mongo:7: no such server is available here')
})
