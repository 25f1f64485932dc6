import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listResults, readResults } from '../../src/results/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { openReleaseLab } from '../support/releases.ts'

// The tables of the specified interface: published results have every field with its type, and the rules between fields
// hold.

type FieldType = 'integer' | 'string' | 'number' | 'boolean' | 'strings' | 'time' | 'objects' | FieldTypes
type FieldTypes = { [name: string]: FieldType }

const RELEASE: FieldTypes = {
  schemaVersion: 'integer',
  releaseId: 'string',
  releasedAt: 'time',
  repository: { id: 'integer', fullName: 'string' },
  publisher: { login: 'string', kind: 'string' },
  tasks: 'integer',
  settings: 'objects',
  frontier: 'strings',
}

const SETTING: FieldTypes = {
  id: 'string',
  model: { catalogId: 'string', name: 'string', label: 'string' },
  harness: 'string',
  reasoningLevel: 'string',
  provider: 'string',
  custom: 'boolean',
  tasks: 'integer',
  passed: 'integer',
  accuracy: 'number',
  costPerTaskUsd: 'number',
  totalCostUsd: 'number',
  onFrontier: 'boolean',
}

const CARD: FieldTypes = {
  repository: { id: 'integer', fullName: 'string' },
  publisher: { login: 'string', kind: 'string' },
  releaseId: 'string',
  releasedAt: 'time',
  tasks: 'integer',
  settings: 'integer',
  picks: 'objects',
  frontier: 'objects',
  endorsed: 'boolean',
  defaultLine: 'boolean',
}

const SUMMARY: FieldTypes = { id: 'string', model: { label: 'string' }, accuracy: 'number', costPerTaskUsd: 'number' }

const is: Record<Exclude<FieldType, FieldTypes>, (value: unknown) => boolean> = {
  integer: Number.isSafeInteger,
  string: (value) => typeof value === 'string' && value !== '',
  number: (value) => typeof value === 'number' && Number.isFinite(value),
  boolean: (value) => typeof value === 'boolean',
  strings: (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  time: (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value),
  objects: (value) => Array.isArray(value) && value.every((each) => typeof each === 'object' && each !== null),
}

/** Lists fields that are missing or have another type. */
function faults(value: Record<string, unknown> | undefined, fields: FieldTypes, path = ''): string[] {
  return Object.entries(fields).flatMap(([name, type]) => {
    const found = value?.[name]
    if (typeof type === 'string') return is[type](found) ? [] : [`${path}${name}: ${JSON.stringify(found)}`]
    return faults(found as Record<string, unknown>, type, `${path}${name}.`)
  })
}

const SETTINGS = ['acme/a|mini|low', 'acme/b|mini|high', 'acme/c|other|none', 'beta/d|mini|low']

// biome-ignore lint/suspicious/noExplicitAny: checked against the tables above
type Any = any
let app: TestApp
let line: Any
let card: Any

beforeAll(async () => {
  app = await testApp()
  const lab = await openReleaseLab(app)
  await lab.ran(
    { id: SETTINGS[0] ?? '', cells: 'ppffff', micros: 1000, label: 'A' },
    { id: SETTINGS[1] ?? '', cells: 'pppppf', micros: 5000, label: 'B' },
    { id: SETTINGS[2] ?? '', cells: 'ppffff', micros: 7000, label: 'C' },
    { id: SETTINGS[3] ?? '', cells: 'pppp--', micros: 333, label: 'D' },
  )
  await lab.publishAll()
  line = (await app.call(readResults, { params: lab.place, key: null })).body.lines[0]
  card = (await app.call(listResults, { key: null })).body.cards[0]
})
afterAll(() => app[Symbol.asyncDispose]())

describe('a release line', () => {
  test('has the fields of its tables', () => {
    expect(typeof line.endorsed).toBe('boolean')
    expect(faults(line.release, RELEASE)).toEqual([])
    expect(line.release.settings).toHaveLength(4)
    for (const setting of line.release.settings) expect(faults(setting, SETTING)).toEqual([])
  })

  test('satisfies the rules between fields', () => {
    const { release } = line
    expect(release.schemaVersion).toBe(1)
    expect(release.repository.fullName).toMatch(/^[^/]+\/[^/]+$/)
    expect(['org', 'user']).toContain(release.publisher.kind)
    for (const setting of release.settings) {
      expect(setting.id).toBe(`${setting.model.catalogId}|${setting.harness}|${setting.reasoningLevel}`)
      expect(setting.passed).toBeLessThanOrEqual(setting.tasks)
      expect(setting.tasks).toBeLessThanOrEqual(release.tasks)
      expect(setting.accuracy).toBeCloseTo((100 * setting.passed) / setting.tasks, 10)
      expect(setting.costPerTaskUsd).toBeCloseTo(setting.totalCostUsd / setting.tasks, 6)
      expect(setting.onFrontier).toBe(release.frontier.includes(setting.id))
    }
    expect(release.frontier).toEqual(SETTINGS.slice(0, 2))
  })
})

describe('a card', () => {
  test('has the fields of its table', () => {
    expect(faults(card, CARD)).toEqual([])
    for (const summary of [...card.frontier, ...card.picks.map((pick: Any) => pick.setting)])
      expect(faults(summary, SUMMARY)).toEqual([])
    for (const { roles } of card.picks) expect(is.strings(roles) && roles.length > 0).toBe(true)
  })

  test('has the same values as the release', () => {
    const { release } = line
    for (const name of ['repository', 'publisher', 'releaseId', 'releasedAt', 'tasks'])
      expect(card[name]).toEqual(release[name])
    expect(card.settings).toBe(release.settings.length)
    expect(card.frontier.map(({ id }: Any) => id)).toEqual(release.frontier)
    expect(card.picks.map(({ setting, roles }: Any) => [setting.id, ...roles])).toEqual([
      [SETTINGS[0], 'cheapest'],
      [SETTINGS[1], 'most-accurate'],
    ])
    expect(card.defaultLine).toBe(true)
  })
})
