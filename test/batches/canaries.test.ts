// Known-bad tasks with one defect each, and good ones: every defect is detected and no good task is rejected.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sanitise } from '../../src/taskgen/authoring/sanitise.ts'
import { controls, defects, traps } from '../../src/taskgen/canaries/canaries.ts'
import { buildReviewInput, knownTasks } from '../../src/taskgen/canaries/canary.ts'
import { lintInstruction } from '../../src/taskgen/lint/lint-instruction.ts'
import { type InstructionDraft, renderInstruction } from '../../src/taskgen/lint/render-instruction.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { listCandidates, listPulls } from '../support/repositories/repository.ts'
import { drafts } from '../support/repositories/scripts.ts'
import { harmlessSentences } from './canaries/controls.ts'
import { instructionCanaries } from './canaries/instructions.ts'
import { exposedIn, type KnownPull, type KnownRepository, openKnown } from './known-pull.ts'

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

describe('a rule detects each defective instruction', () => {
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
  listPulls(repository)
    .filter(({ expected, truth }) => (truth ?? expected) === 'ready')
    .map(({ number, title }) => [repository.name, number, title] as const),
)

describe('no rule rejects a good instruction', () => {
  test.each(goodPulls)('%s #%i: %s', async (repository, number) => {
    const [good, { facts }] = await goodTask(repository, number)
    expect(lintInstruction(renderInstruction(good, facts.exposed), facts)).toEqual([])
  })
})

describe('accepts instructions that only look defective', () => {
  test.each(harmlessSentences)('%s #%i: %s', async (repository, number, sentence) => {
    const [good, { facts }] = await goodTask(repository, number)
    const markdown = renderInstruction({ ...good, problem: `${good.problem} ${sentence}` }, facts.exposed)
    expect(lintInstruction(markdown, facts)).toEqual([])
  })
})

const knownPull = (name: string) => {
  const [repository = '', number] = name.split('-')
  return goodTask(repository, Number(number))
}
const taskOf = (name: string) => {
  const found = knownTasks.find((task) => task.name === name)
  if (!found) throw new Error(`There is no known task ${name}.`)
  return found
}

describe('no rule rejects defects that only a reviewer can see', () => {
  const all = [...defects, ...controls]
  test.each(all.map((each) => [each.task, each.name, each] as const))('%s: %s', async (task, _, spoiling) => {
    const [, { facts, before, split }] = await knownPull(task)
    const { instruction, hidden } = buildReviewInput(taskOf(task), spoiling)
    expect(lintInstruction(instruction, facts)).toEqual([])
    expect(exposedIn(before, { source: split.source, hidden })).toEqual(facts.exposed)
    expect({ instruction, hidden }).not.toEqual(buildReviewInput(taskOf(task)))
  })
})

test.each(traps.map((each) => [each.task, each.name, each] as const))(
  'the forbidden text is in the pull request and not in a careful instruction: %s, %s',
  (task, _, { text, forbidden }) => {
    const { draft } = taskOf(task)
    const shown = JSON.stringify(sanitise({ title: '', body: '', issues: [], ...text })).toLowerCase()
    expect(forbidden.some((word) => shown.includes(word))).toBe(true)
    expect(forbidden.filter((word) => JSON.stringify(draft).toLowerCase().includes(word))).toEqual([])
  },
)

test('the set of canaries is large enough', () => {
  const ended = repositories.flatMap(listCandidates).filter(({ expected }) => expected !== 'ready')
  expect(instructionCanaries.length + ended.length).toBeGreaterThanOrEqual(40)
  expect(goodPulls.length + harmlessSentences.length).toBeGreaterThanOrEqual(40)
  expect(defects.length).toBeGreaterThanOrEqual(25)
  expect(knownTasks.length + controls.length).toBeGreaterThanOrEqual(40)
})
