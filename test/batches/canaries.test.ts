// Known-bad tasks, one defect each, and good ones beside them: what must be seen is seen, and nothing else is.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { lintInstruction } from '../../src/batches/lint/lint-instruction.ts'
import { renderInstruction } from '../../src/batches/lint/render-instruction.ts'
import type { InstructionDraft } from '../../src/batches/stages/parts.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { candidatesOf, pullsOf } from '../support/repositories/repository.ts'
import { drafts } from '../support/repositories/scripts.ts'
import { harmlessSentences } from './canaries/controls.ts'
import { instructionCanaries } from './canaries/instructions.ts'
import { type KnownPull, type KnownRepository, openKnown } from './known-pull.ts'

const known = new Map<string, KnownRepository>()
beforeAll(async () => {
  for (const repository of repositories) known.set(repository.name, await openKnown(repository))
})
afterAll(async () => {
  for (const each of known.values()) await each[Symbol.asyncDispose]()
})

async function goodTask(repository: string, number: number): Promise<[InstructionDraft, KnownPull]> {
  const good = drafts[repository]?.[number]
  const pull = await known.get(repository)?.pull(number)
  if (!good || !pull) throw new Error(`Nobody wrote an instruction for #${number} of ${repository}.`)
  return [good, pull]
}

describe('a spoiled instruction is seen by its rule', () => {
  test.each(instructionCanaries.map((each) => [each.expected, each.name, each] as const))(
    '%s: %s',
    async (expected, _, { repository, pull, spoil }) => {
      const [good, facts] = await goodTask(repository, pull)
      const found = lintInstruction(spoil(good, facts), facts.facts)
      expect(found.map(({ rule }) => rule)).toContain(expected)
    },
  )
})

const goodPulls = repositories.flatMap((repository) =>
  pullsOf(repository)
    .filter(({ expected, truth }) => (truth ?? expected) === 'ready')
    .map(({ number, title }) => [repository.name, number, title] as const),
)

describe('a good instruction has nothing against it', () => {
  test.each(goodPulls)('%s #%i: %s', async (repository, number) => {
    const [good, { facts }] = await goodTask(repository, number)
    expect(lintInstruction(renderInstruction(good, facts.pinned), facts)).toEqual([])
  })
})

describe('what only looks like a defect is none', () => {
  test.each(harmlessSentences)('%s #%i: %s', async (repository, number, sentence) => {
    const [good, { facts }] = await goodTask(repository, number)
    const markdown = renderInstruction({ ...good, problem: `${good.problem} ${sentence}` }, facts.pinned)
    expect(lintInstruction(markdown, facts)).toEqual([])
  })
})

test('the set is large enough to mean something', () => {
  const ended = repositories.flatMap(candidatesOf).filter(({ expected }) => expected !== 'ready')
  expect(instructionCanaries.length + ended.length).toBeGreaterThanOrEqual(40)
  expect(goodPulls.length + harmlessSentences.length).toBeGreaterThanOrEqual(40)
})
