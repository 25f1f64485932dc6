// Plants plausible but wrong solutions of good pull requests, and counts those that the tests accept.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { hasProgram, isLongRun } from '../support/parts.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { applyTreeEdits, listLandedTrees, type SourceTree } from '../support/repositories/repository.ts'
import { drafts } from '../support/repositories/scripts.ts'
import { toolchains, writeTree } from '../support/repositories/toolchains.ts'
import { knownGaps, type PlantedSolution, wrongSolutions } from '../support/repositories/wrong-solutions.ts'

vi.setConfig({ testTimeout: 600_000 })

const PASSING_MAX = 2

/** Default runs try the Python ones, which are fast. */
const isChosen = ({ repository }: PlantedSolution): boolean => isLongRun() || repository === 'tally'
const chosen = wrongSolutions.filter(isChosen)

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-wrong-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

function openSolution({ repository: name, pull: number, edits }: PlantedSolution) {
  const repository = repositories.find((each) => each.name === name)
  const landed = repository && [...listLandedTrees(repository)].find(({ pull }) => pull.number === number)
  if (!repository || !landed) throw new Error(`${name} has no #${number}.`)
  const { after } = landed
  return { tools: toolchains[repository.language], after, wrong: applyTreeEdits(after, edits) }
}

/** Tests that the reference solution passes, by pull request. */
const correct = new Map<string, Promise<string[]>>()

/** True if every test that the reference solution passes also passes with the planted one. */
async function isAccepted(solution: PlantedSolution): Promise<boolean> {
  const { tools, after, wrong } = openSolution(solution)
  const listPassed = async (tree: SourceTree) => {
    const ended = await tools.run(await writeTree(await mkdtemp(join(root, 'tree-')), tree))
    return [...ended].filter(([, end]) => end === 'passed').map(([id]) => id)
  }
  const key = `${solution.repository} ${solution.pull}`
  const required = correct.get(key) ?? listPassed(after)
  correct.set(key, required)
  expect((await required).length).toBeGreaterThan(0)
  const passed = new Set(await listPassed(wrong))
  return (await required).every((id) => passed.has(id))
}

const isRunnable = (solution: PlantedSolution): boolean => hasProgram(openSolution(solution).tools.program)
const title = ({ repository, pull, sentence }: PlantedSolution): string => `${repository} #${pull}: ${sentence}`

test.each([...wrongSolutions, ...knownGaps].map((each) => [title(each), each] as const))(
  'the instruction has the violated sentence: %s',
  (_, { repository, pull, sentence }) => {
    const { problem, expected } = drafts[repository]?.[pull] ?? { problem: '', expected: '' }
    expect(`${problem}\n${expected}`).toContain(sentence)
  },
)

const passing: string[] = []

test.each(chosen.filter(isRunnable).map((each) => [title(each), each] as const))(
  'is run: %s',
  async (name, solution) => {
    const isPassing = await isAccepted(solution)
    if (isPassing) passing.push(name)
    if (isLongRun()) process.stdout.write(`${isPassing ? 'passes' : 'fails '} ${name}\n`)
  },
)

test('few wrong solutions pass', () => {
  expect(passing.length, passing.join('\n')).toBeLessThanOrEqual(PASSING_MAX)
  expect(wrongSolutions).toHaveLength(30)
})

test.each(
  knownGaps
    .filter(isChosen)
    .filter(isRunnable)
    .map((each) => [title(each), each] as const),
)('is a known gap of the tests: %s', async (_, solution) => {
  expect(await isAccepted(solution)).toBe(true)
})
