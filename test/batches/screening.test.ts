import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openClone } from '../../src/repos/mirror/local-clone.ts'
import { listGitHistory } from '../../src/repos/pull-requests/git-history.ts'
import { scan } from '../../src/taskgen/candidates/scan.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { listPulls, type SampleRepository, writeRepository } from '../support/repositories/repository.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-screening-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal
const NOW = new Date('2026-06-01')

/** Returns the difficulty of each pull request, or the reason for its rejection. */
async function verdicts(repository: SampleRepository): Promise<Record<number, string>> {
  const folder = join(root, repository.name)
  await writeRepository(folder, repository)
  await using clone = await openClone(folder, { signal })
  const tools = { location: clone.location, pullRequests: listGitHistory(clone), verdicts: new Map() }
  const found: Record<number, string> = {}
  for await (const { pullRequest, verdict } of scan(tools, { now: NOW, defaultBranch: 'main' }, signal)) {
    expect(found).not.toHaveProperty(String(pullRequest.number))
    found[pullRequest.number ?? 0] = verdict.kind === 'candidate' ? verdict.difficulty : verdict.reason
  }
  return found
}

test.each(repositories.map((repository) => [repository.name, repository] as const))(
  'every pull request of %s is a candidate of the expected difficulty, or rejected for the expected reason',
  async (_, repository) => {
    const expected = listPulls(repository).map(({ number, difficulty, expected: fate }) => [number, difficulty ?? fate])
    expect(await verdicts(repository)).toEqual(Object.fromEntries(expected))
  },
)

test('the repositories contain every difficulty and are deterministic', async () => {
  for (const repository of repositories) {
    const sizes = listPulls(repository).filter(({ expected }) => expected === 'ready')
    expect(new Set(sizes.map(({ difficulty }) => difficulty))).toEqual(new Set(['easy', 'medium', 'hard']))
  }
  const [first = '', second = ''] = await Promise.all(['one', 'two'].map(tipOf))
  expect(first).toMatch(/^[0-9a-f]{40}$/)
  expect(second).toBe(first)
})

async function tipOf(name: string): Promise<string | undefined> {
  const [repository] = repositories
  if (!repository) return undefined
  const folder = join(root, `again-${name}`)
  await writeRepository(folder, repository)
  await using clone = await openClone(folder, { signal })
  return clone.tip
}
