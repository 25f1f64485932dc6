import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { printable } from '../platform/terminal-text.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { chooseEncoding } from './cache.ts'
import { drawBadge, drawChart } from './drawings.ts'
import { toAtomFeed } from './results.ts'
import type { Card } from './schema.ts'
import { escapeXml, formatUsd, toCsv, truncate } from './text.ts'

const stats: ReleaseSetting['stats'] = {
  passAt1: 50,
  ci95: { low: 30, high: 70, level: 0.95, method: 'wilson-task-clustered', tasks: 10, trials: 10 },
  rank: { best: 1, worst: 2 },
  frontierProbability: 1,
  usagePerTask: null,
  cacheHitRate: null,
  reliability: null,
  coverage: 100,
  errored: 0,
  costSource: 'gateway',
  methods: { rank: 'r', frontierProbability: 'f' },
}

const settingNamed = (label: string, over: Partial<ReleaseSetting> = {}): ReleaseSetting => ({
  id: `${label}|mini|low`,
  model: { catalogId: label, name: label, label },
  harness: 'mini',
  reasoningLevel: 'low',
  provider: 'lab',
  custom: false,
  tasks: 10,
  passed: 5,
  accuracy: 50,
  costPerTaskUsd: 0.05,
  totalCostUsd: 0.5,
  onFrontier: true,
  isolation: 'none',
  stats,
  ...over,
})

const releaseWith = (settings: ReleaseSetting[], fullName = 'lab/demo', login = 'local'): Release => ({
  schemaVersion: 1,
  releaseId: '0190a000-0000-7000-8000-000000000000',
  releasedAt: '2026-02-03T04:05:06.789Z',
  repository: { id: 1, fullName },
  publisher: { login, kind: 'org' },
  tasks: 10,
  settings,
  frontier: settings.filter(({ onFrontier }) => onFrontier).map(({ id }) => id),
  disclosure: {
    settings: { run: 1, published: 1 },
    trials: { run: 1, scored: 1, errored: 0, voided: 0 },
    tasks: { approved: 1, published: 1, excluded: [] },
    attempts: { min: 1, max: 1 },
    harnesses: [],
    sandboxes: [],
    verifyModes: [],
    isolation: [],
    resources: '',
    comparisons: { count: 1, from: null, to: null },
  },
  prices: { at: '2026-02-03T04:05:06.789Z', models: [] },
})

const HOSTILE = [
  '</svg><script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onload='alert(1)",
  '&lt;&#60;',
  ']]><![CDATA[',
  '\u0000\u0001\u001f\u007f',
  '\ud800 half',
  '\u202egnp.exe',
  '漢字かな交じり文'.repeat(20),
  '👩‍👩‍👧‍👦'.repeat(100),
  `Z${'\u0301'.repeat(5000)}`,
  'x'.repeat(100_000),
  '\ufffe\uffff',
  'عربى',
]

const TAG = /^<(\/?)([A-Za-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: XML forbids them, so they are what is looked for
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/

/** Tags close in the order in which they opened, and nothing stands raw that would begin another. */
function requireWellFormed(text: string): void {
  expect(FORBIDDEN.test(text) || !text.isWellFormed()).toBe(false)
  const pieces = text.replace(/^<\?xml [^>]*\?>/, '').split(/(<[^>]*>)/)
  const tags = pieces.filter((piece) => piece.startsWith('<'))
  expect(tags.filter((tag) => !TAG.test(tag))).toEqual([])
  const words = pieces.filter((piece) => !piece.startsWith('<'))
  expect(words.filter((piece) => /&(?!(?:amp|lt|gt|quot|#39);)/.test(piece))).toEqual([])
  const open: string[] = []
  for (const [, isEnd, name = '', , isEmpty] of tags.map((tag) => TAG.exec(tag) ?? [])) {
    if (isEnd) expect(open.pop()).toBe(name)
    else if (!isEmpty) open.push(name)
  }
  expect(open).toEqual([])
}

describe('pictures', () => {
  test.each(HOSTILE)('are well-formed, small and without script, whatever things are called: %#', (name) => {
    const release = releaseWith(
      [settingNamed(name), settingNamed(`${name}2`, { onFrontier: false })],
      `lab/${name}`,
      name,
    )
    for (const picture of [drawBadge(release), drawChart(release)]) {
      requireWellFormed(picture)
      expect(picture).not.toMatch(/<script|<img|<[^>]*\son\w+="/i)
      expect(picture.length).toBeLessThan(20_000)
      expect(picture).not.toMatch(/NaN|undefined|Infinity/)
    }
  })

  test('have a title, a text for screen readers, and colours for light and dark mode', () => {
    const release = releaseWith([
      settingNamed('Small'),
      settingNamed('Large', { costPerTaskUsd: 5, passed: 9, accuracy: 90 }),
    ])
    const chart = drawChart(release)
    expect(chart).toContain('role="img"')
    expect(chart).toMatch(/<title id="t">lab\/demo: accuracy and cost of 2 settings on 10 tasks<\/title>/)
    expect(chart).toContain('prefers-color-scheme:dark')
    expect(chart).toContain('2  Large · mini · low: 90 %, $5.00')
    expect(drawBadge(release)).toContain('Large 90 % · $5.00/task')
    for (const [, size] of chart.matchAll(/font-size="(\d+)"/g)) expect(Number(size)).toBeGreaterThanOrEqual(12)
  })

  test('mark custom models, also if their names are long', () => {
    for (const label of ['Large', 'x'.repeat(200)]) {
      const release = releaseWith([settingNamed(label, { custom: true })])
      expect(drawBadge(release)).toContain(' (custom model) 50 %')
      expect(drawChart(release)).toMatch(/1 {2}[^<]* \(custom model\): 50 %/)
      expect(drawChart(release)).toMatch(/<g><title>[^<]* \(custom model\): 50 %/)
    }
    const known = releaseWith([settingNamed('Large')])
    for (const picture of [drawBadge(known), drawChart(known)]) expect(picture).not.toContain('(custom model)')
  })

  test('are valid with no setting, one, sixty, and costs of zero', () => {
    const many = Array.from({ length: 60 }, (_, place) =>
      settingNamed(`m${place}`, { costPerTaskUsd: 10 ** (place / 10 - 4) }),
    )
    for (const settings of [
      [],
      many,
      [settingNamed('free', { costPerTaskUsd: 0 })],
      [settingNamed('a', { onFrontier: false, stats: { ...stats, ci95: null } })],
    ]) {
      requireWellFormed(drawChart(releaseWith(settings)))
      requireWellFormed(drawBadge(releaseWith(settings)))
      expect(drawChart(releaseWith(settings))).not.toMatch(/NaN|Infinity/)
    }
    expect(drawChart(releaseWith(many))).toContain('and 48 more')
  })
})

test.each(['\u202e', '\u2066', '\u200b', '\u200d', '\u2060', '\ufeff', '\u00ad', '\u{e0041}', '\u3164'])(
  'no text contains characters that reorder or are invisible: %j',
  (character) => {
    const name = `Op${character}us`
    const release = releaseWith([settingNamed(name, { custom: true })], `lab/${name}`, name)
    const feed = toAtomFeed([cardNamed(name)], 'https://results.example')
    for (const text of [drawBadge(release), drawChart(release), toCsv(release), feed]) {
      expect(text).not.toContain(character)
      expect(text).toContain('Op us')
    }
  },
)

const cardNamed = (name: string): Card => ({
  repository: { id: 1, fullName: `lab/${name}` },
  publisher: { login: name, kind: 'org' },
  releaseId: 'a',
  releasedAt: '2026-02-03T04:05:06.789Z',
  tasks: 1,
  settings: 1,
  picks: [],
  frontier: [{ id: name, model: { label: name }, accuracy: 1, costPerTaskUsd: 1 }],
  endorsed: false,
  defaultLine: true,
})

test('the feed is well-formed with arbitrary names', () => {
  for (const name of HOSTILE) {
    requireWellFormed(toAtomFeed([cardNamed(name)], 'https://results.example'))
  }
  requireWellFormed(toAtomFeed([], 'https://results.example'))
})

describe('the table', () => {
  const cellsOf = (text: string): string[][] => {
    const rows: string[][] = [[]]
    for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
      rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? bare ?? '')
      if (end === '\r\n') rows.push([])
    }
    return rows.slice(0, -1)
  }

  test('has one line per setting, with equally many cells', () => {
    const rows = cellsOf(toCsv(releaseWith([settingNamed('a,b "c"\r\nd'), settingNamed('plain')])))
    expect(rows).toHaveLength(3)
    expect(new Set(rows.map((row) => row.length)).size).toBe(1)
    expect(rows[1]?.[5]).toBe('a,b "c"  d')
    const accuracy = rows[0]?.indexOf('accuracy') ?? -1
    expect(rows[2]?.[accuracy]).toBe('50')
  })

  test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', ' =1', "'=1", '"=1', '|calc', '＝1', '%0A=1'])(
    'holds no formula: %j',
    (name) => {
      const rows = cellsOf(toCsv(releaseWith([settingNamed(name)], name, name)))
      for (const cell of rows[1] ?? []) expect(cell).not.toMatch(/^[\s"]*[=+\-@|%＝＋－＠]/u)
    },
  )

  test('round-trips with arbitrary names', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (name) => {
        const row = cellsOf(toCsv(releaseWith([settingNamed(name)])))[1] ?? []
        expect(row).toHaveLength(21)
        expect([name, `'${name}`].map((each) => printable(each.toWellFormed(), ' '))).toContain(row[5])
      }),
    )
  })
})

test('short text is unchanged, long text ends with an ellipsis', () => {
  expect(truncate('Small', 10)).toBe('Small')
  expect(truncate('A much longer name', 7)).toBe('A much…')
  expect(escapeXml('<a & "b">')).toBe('&lt;a &amp; &quot;b&quot;&gt;')
  expect([0, 0.00001, 0.0123, 0.5, 1.5, 12.345, 1234.5].map(formatUsd)).toEqual([
    '$0',
    '$0.000010',
    '$0.012',
    '$0.50',
    '$1.50',
    '$12.35',
    '$1235',
  ])
})

test('the best encoding that the client accepts is chosen', () => {
  const cases: [string | undefined, string][] = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['gzip;q=0.5', 'gzip'],
    ['x-gzip', 'identity'],
    ['BR', 'br'],
  ]
  for (const [accepted, encoding] of cases) expect(chooseEncoding(accepted), accepted).toBe(encoding)
})
