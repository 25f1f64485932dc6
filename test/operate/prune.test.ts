import { existsSync, mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { lockFile } from '../../src/platform/file-lock.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { assay } from '../support/assay-command.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'

const DAY_MS = 24 * 60 * 60 * 1000
let app: TestApp
let data: string
beforeAll(async () => {
  app = await testApp()
  data = app.tools.config.dataFolder
})
afterAll(async () => app[Symbol.asyncDispose]())

async function prune(...flags: string[]): Promise<Record<string, number>> {
  const env = { DATABASE_URL: app.database.url, ASSAY_DATA: data, ASSAY_BLOBS: app.tools.config.blobs }
  const { code, out, err } = await assay(['prune', '--json', ...flags], { env })
  expect(code, err).toBe(0)
  const { pruned }: { pruned: { kind: string; count: number }[] } = JSON.parse(out)
  return Object.fromEntries(pruned.map(({ kind, count }) => [kind, count]))
}
const NOTHING = { artifacts: 0, 'call bodies': 0, mirrors: 0, scans: 0, 'image layers': 0, 'Docker images': 0 }

/** Writes a file of the data folder that was last used some days ago. */
function write(path: string, text: string, daysAgo: number): void {
  const full = join(data, path)
  mkdirSync(dirname(full), { recursive: true })
  writeFileSync(full, text)
  const time = new Date(Date.now() - daysAgo * DAY_MS)
  utimesSync(full, time, time)
}

test('deletes files of old trials, but none of a comparison that has not ended; results stay', async () => {
  const lab = await openComparisonLab(app, createScriptedEngine())
  const [ended, paused] = [(await lab.create()).body.id, (await lab.create()).body.id]
  await lab.work()
  await app.database.pool.query(`update trials set finished_at = finished_at - interval '40 days'`)
  await app.database.pool.query(`update comparisons set state = 'paused' where id = $1`, [paused])
  const before = await lab.read(ended)
  expect(await prune('--older-than', '30d', '--dry-run')).toEqual({ ...NOTHING, artifacts: 10 })
  expect((await lab.trials(ended))[0].artifacts).not.toEqual([])
  expect(await prune()).toEqual(NOTHING) // The default is 90 days.
  expect(await prune('--older-than', '30d')).toEqual({ ...NOTHING, artifacts: 10 })
  expect(await prune('--older-than', '30d')).toEqual(NOTHING)
  expect((await lab.trials(ended))[0]).toMatchObject({ state: 'passed', artifacts: [] })
  expect((await lab.trials(paused))[0].artifacts).not.toEqual([])
  expect(await lab.read(ended)).toEqual(before)
})

test('deletes mirrors that were not used, except one that a process has locked', async () => {
  for (const [id, daysAgo] of Object.entries({ old: 40, young: 10, locked: 40 })) {
    write(`mirrors/${id}/git/HEAD`, 'ref: refs/heads/main', daysAgo)
    write(`mirrors/${id}/lock`, '', daysAgo)
  }
  const lock = await lockFile(join(data, 'mirrors/locked/lock'), 0)
  expect(await prune('--dry-run')).toEqual({ ...NOTHING, mirrors: 1 })
  expect(await prune()).toEqual({ ...NOTHING, mirrors: 1 })
  const isThere = (id: string) => existsSync(join(data, 'mirrors', id, 'git'))
  expect(['old', 'young', 'locked'].map(isThere)).toEqual([false, true, true])
  await lock?.[Symbol.asyncDispose]()
  rmSync(join(data, 'mirrors'), { recursive: true })
})

test('deletes results of scans that were not repeated', async () => {
  write('scans/repository-1.jsonl', '{}', 40)
  write('scans/repository-2.jsonl', '{}', 1)
  expect(await prune()).toEqual({ ...NOTHING, scans: 1 })
  expect(readdirSync(join(data, 'scans'))).toEqual(['repository-2.jsonl'])
})

test('deletes builds that were not used and their images, but no image with a name', async () => {
  const image = (digest: string) => {
    write(`sandboxes/local/images/${digest}.json`, JSON.stringify({ digest, layers: [`layers/${digest}`] }), 40)
    write(`sandboxes/local/layers/${digest}/etc/os-release`, 'Linux', 40)
  }
  for (const digest of ['old', 'used', 'imported']) image(digest)
  write('sandboxes/local/builds/a', 'old', 40)
  write('sandboxes/local/builds/b', 'used', 2)
  write('sandboxes/local/names/debian', 'imported', 40)
  expect(await prune('--dry-run')).toEqual(NOTHING) // A layer that was stored today may belong to a build in progress.
  expect(readdirSync(join(data, 'sandboxes/local/builds')).toSorted()).toEqual(['a', 'b'])
  await prune()
  expect(readdirSync(join(data, 'sandboxes/local/builds'))).toEqual(['b'])
  expect(readdirSync(join(data, 'sandboxes/local/images')).toSorted()).toEqual(['imported.json', 'used.json'])
})

test.each(['0', 'soon', '-1', '1.5d'])('refuses --older-than %s', async (text) => {
  expect(await assay(['prune', '--older-than', text])).toMatchObject({ code: 2 })
})
