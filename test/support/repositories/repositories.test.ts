// Checks the expected result of each pull request with the real toolchains and none of our code.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasProgram, isLongRun } from '../parts.ts'
import { repositories } from './repositories.ts'
import { listLandedTrees, type SamplePull, type SampleRepository, type SourceTree } from './repository.ts'
import { type Ended, type Toolchain, toolchains, writeTree } from './toolchains.ts'

let root: string
let folders = 0
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-truth-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

type Landing = { pull: SamplePull; before: SourceTree; after: SourceTree; tools: Toolchain }

/** Returns the tree before the change, with the files that `takes` selects as they are afterwards. */
function mixed({ before, after }: Landing, takes: (path: string) => boolean): SourceTree {
  const kept = [...before].filter(([path]) => !takes(path))
  return new Map([...kept, ...[...after].filter(([path]) => takes(path))])
}

async function run({ tools }: Landing, tree: SourceTree, env?: Record<string, string>): Promise<Ended> {
  folders += 1
  return tools.run(await writeTree(join(root, String(folders)), tree), env)
}

const isChanged = ({ before, after }: Landing, path: string): boolean => before.get(path) !== after.get(path)
const passed = (ended: Ended): string[] => [...ended].filter(([, end]) => end === 'passed').map(([id]) => id)
const passedIn = (ended: Ended) => (id: string) => ended.get(id) === 'passed'

/** Returns the trees before the change, with only the new tests, and with the entire change. */
async function matrix(landing: Landing) {
  const { isTest, isSource } = landing.tools
  const s0 = await run(landing, landing.before)
  const s1 = await run(landing, mixed(landing, isTest))
  const s2 = await run(
    landing,
    mixed(landing, (path) => isTest(path) || isSource(path)),
  )
  const failToPass = passed(s2).filter((id) => !passedIn(s1)(id))
  const passToPass = passed(s0).filter((id) => passedIn(s1)(id) && passedIn(s2)(id))
  const passToFail = passed(s0).filter((id) => passedIn(s1)(id) && !passedIn(s2)(id))
  return { s0, s1, s2, failToPass, passToPass, passToFail }
}

type Matrix = Awaited<ReturnType<typeof matrix>>

/** Counts the changed source files that at least one test needs. */
async function needed(landing: Landing, failToPass: readonly string[]): Promise<number> {
  const { isTest, isSource } = landing.tools
  const paths = [...new Set([...landing.before.keys(), ...landing.after.keys()])]
  const changed = paths.filter((path) => isSource(path) && isChanged(landing, path))
  let count = 0
  for (const without of changed) {
    const ended = await run(
      landing,
      mixed(landing, (path) => path !== without && (isTest(path) || isSource(path))),
    )
    if (!failToPass.every(passedIn(ended))) count += 1
  }
  return count / changed.length
}

/** Environment variables with a fixed date. */
const onDay = async (year: number): Promise<Record<string, string>> => {
  const lines = [
    'import datetime',
    'class date(datetime.date):',
    '    @classmethod',
    '    def today(cls):',
    `        return cls(${year}, 6, 1)`,
    'datetime.date = date',
  ]
  const folder = await mkdtemp(join(root, 'day-'))
  await writeFile(join(folder, 'sitecustomize.py'), `${lines.join('\n')}\n`)
  return { PYTHONPATH: folder }
}

const whole = (landing: Landing): SourceTree =>
  mixed(landing, (path) => landing.tools.isTest(path) || landing.tools.isSource(path))

/** Facts that must hold for each expected result. */
const proofs: Record<string, (landing: Landing, seen: Matrix) => Promise<void> | void> = {
  async ready(landing, { s0, failToPass, passToPass, passToFail }) {
    expect(failToPass.length).toBeGreaterThan(0)
    expect(passToPass.length).toBeGreaterThanOrEqual(5)
    expect(passToFail).toEqual([])
    expect(passed(s0).length).toBeGreaterThanOrEqual(Math.max(10, s0.size * 0.85))
    if (isLongRun()) expect(await needed(landing, failToPass)).toBeGreaterThanOrEqual(0.5)
  },
  no_f2p: (_, { failToPass, passToFail }) => expect([...failToPass, ...passToFail]).toEqual([]),
  p2f: (_, { failToPass, passToFail }) => {
    expect(failToPass.length).toBeGreaterThan(0)
    expect(passToFail.length).toBeGreaterThan(0)
  },
  no_p2p: (_, { failToPass, passToPass }) => {
    expect(failToPass.length).toBeGreaterThan(0)
    expect(passToPass).toEqual([])
  },
  async flaky_f2p(landing, { s2 }) {
    const again = await run(landing, whole(landing))
    expect([...again.keys()].toSorted()).toEqual([...s2.keys()].toSorted())
    expect(new Map([...again].toSorted())).not.toEqual(new Map([...s2].toSorted()))
  },
  async weak_tests(landing, seen) {
    expect(seen.failToPass.length).toBeGreaterThan(0)
    expect(seen.passToFail).toEqual([])
    expect(await needed(landing, seen.failToPass)).toBeLessThan(0.5)
  },
  error_only_f2p: (_, { s1, s2, failToPass }) => {
    expect(failToPass.length).toBeGreaterThan(0)
    expect([...s1.values()].filter((end) => end === 'failed')).toEqual([])
    expect([...s2.values()].every((end) => end === 'passed')).toBe(true)
  },
  suite_unhealthy: (_, { s0 }) => expect(passed(s0).length).toBeLessThan(s0.size * 0.85),
  async clock_bomb(landing) {
    const [now, later] = [await onDay(2026), await onDay(2027)]
    expect([...(await run(landing, whole(landing), now)).values()]).not.toContain('failed')
    expect([...(await run(landing, whole(landing), later)).values()]).toContain('failed')
  },
  needs_network: (_, { s2 }) => {
    const failing = [...s2].filter(([, end]) => end !== 'passed').map(([id]) => id)
    expect(failing.length).toBeGreaterThan(0)
    expect(failing.filter((id) => !/test_fetch|test_world/.test(id))).toEqual([])
  },
}

/** Default runs test one pull request of each kind in Python, which is fast, and the first good one of other languages. */
const QUICK: Partial<Record<SampleRepository['language'], number[]>> = { python: [1, 2, 11, 14, 15, 17] }

const isChosen = ({ language }: SampleRepository, { number, difficulty, isHostile }: SamplePull): boolean =>
  difficulty !== undefined && !isHostile && (isLongRun() || (QUICK[language] ?? [1]).includes(number))

describe.each(repositories.map((repository) => [repository.name, repository] as const))('%s', (_, repository) => {
  const tools = toolchains[repository.language]
  const cases = [...listLandedTrees(repository)].filter(({ pull }) => isChosen(repository, pull))
  test
    .skipIf(!hasProgram(tools.program))
    .each(cases.map((each) => [each.pull.number, each.pull.truth ?? each.pull.expected, each] as const))(
    `with ${tools.program}: #%i is %s`,
    async (_number, expected, each) => {
      const landing = { ...each, tools }
      const prove = proofs[expected]
      if (!prove) throw new Error(`Nobody knows how to prove ${expected}.`)
      await prove(landing, await matrix(landing))
    },
  )
})
