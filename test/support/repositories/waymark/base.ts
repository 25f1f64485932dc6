import { readFileSync } from 'node:fs'

const lock = readFileSync(new URL('./lock.json', import.meta.url), 'utf8')

/** Paths to what answers them. TypeScript, with vitest and a lock file. */
export const base: Record<string, string> = {
  'README.md': '# waymark\n\nPaths to what answers them: `/users/:id`, `/files/*`.\n',
  '.gitignore': 'node_modules/\ndist/\n',
  'package.json': `${JSON.stringify(
    {
      name: 'waymark',
      version: '0.4.0',
      private: true,
      type: 'module',
      scripts: { test: 'vitest run' },
      devDependencies: { vitest: '3.2.4' },
    },
    null,
    2,
  )}\n`,
  'package-lock.json': lock,
  'tsconfig.json': `${JSON.stringify({ compilerOptions: { strict: true, target: 'es2022', module: 'nodenext' } })}\n`,
  'src/segments.ts': `export type Segment = { kind: 'text' | 'name' | 'rest'; text: string }

/** A pattern such as /users/:id, cut at its slashes. */
export function segments(pattern: string): Segment[] {
  return pattern
    .split('/')
    .slice(1)
    .map((text) => {
      if (text === '*') return { kind: 'rest', text }
      if (text.startsWith(':')) return { kind: 'name', text: text.slice(1) }
      return { kind: 'text', text }
    })
}
`,
  'src/match.ts': `import type { Segment } from './segments.js'

export type Names = Record<string, string>

/** What the names of a pattern stand for in a path. Undefined: it does not fit. */
export function match(pattern: Segment[], path: string): Names | undefined {
  const parts = path.split('/').slice(1)
  const names: Names = {}
  for (const [at, segment] of pattern.entries()) {
    const part = parts[at]
    if (segment.kind === 'rest') return { ...names, '*': parts.slice(at).join('/') }
    if (part === undefined) return undefined
    if (segment.kind === 'text' && segment.text !== part) return undefined
    if (segment.kind === 'name') names[segment.text] = part
  }
  return parts.length === pattern.length ? names : undefined
}
`,
  'src/query.ts': `/** Pairs after the question mark. The last of the same name counts. */
export function query(text: string): Record<string, string> {
  const pairs: Record<string, string> = {}
  for (const pair of text.split('&')) {
    const [name, value] = pair.split('=')
    if (name) pairs[decodeURIComponent(name)] = decodeURIComponent(value ?? '')
  }
  return pairs
}
`,
  'src/router.ts': `import { match, type Names } from './match.js'
import { query } from './query.js'
import { type Segment, segments } from './segments.js'

export type Call = { names: Names; query: Record<string, string> }
export type Answer = (call: Call) => string
type Route = { pattern: string; segments: Segment[]; answer: Answer }

export class Router {
  readonly routes: Route[] = []

  on(pattern: string, answer: Answer): this {
    this.routes.push({ pattern, segments: segments(pattern), answer })
    return this
  }

  answer(address: string): string {
    const [path = '', search = ''] = address.split('?')
    for (const route of this.routes) {
      const names = match(route.segments, path)
      if (names) return route.answer({ names, query: query(search) })
    }
    return 'not found'
  }
}
`,
  'src/show.ts': `import type { Router } from './router.js'

/** A line for each route. */
export function show(router: Router): string {
  return router.routes.map(({ pattern }) => pattern).join('\\n')
}

export function plural(count: number, word: string): string {
  return count === 1 ? '1 ' + word : count + ' ' + word + 's'
}
`,
  'test/segments.test.ts': `import { expect, test } from 'vitest'

test('text and names', () => {
  expect(segments('/users/:id')).toEqual([
    { kind: 'text', text: 'users' },
    { kind: 'name', text: 'id' },
  ])
})

test('the rest', () => {
  expect(segments('/files/*')[1]).toEqual({ kind: 'rest', text: '*' })
})
`,
  'test/match.test.ts': `import { expect, test } from 'vitest'
import { match } from '../src/match.js'
import { segments } from '../src/segments.js'

test('names stand for parts', () => {
  expect(match(segments('/users/:id/:tab'), '/users/7/mail')).toEqual({ id: '7', tab: 'mail' })
})

test('text must be the same', () => {
  expect(match(segments('/users/:id'), '/people/7')).toBeUndefined()
})

test('a longer path does not fit', () => {
  expect(match(segments('/users/:id'), '/users/7/mail')).toBeUndefined()
})

test('a shorter path does not fit', () => {
  expect(match(segments('/users/:id'), '/users')).toBeUndefined()
})

test('the rest is all that follows', () => {
  expect(match(segments('/files/*'), '/files/a/b')).toEqual({ '*': 'a/b' })
})
`,
  'test/query.test.ts': `import { expect, test } from 'vitest'
import { query } from '../src/query.js'

test('pairs', () => {
  expect(query('a=1&b=x%20y')).toEqual({ a: '1', b: 'x y' })
})

test('nothing', () => {
  expect(query('')).toEqual({})
})

test('a name alone', () => {
  expect(query('a')).toEqual({ a: '' })
})
`,
  'test/router.test.ts': `import { expect, test } from 'vitest'
import { Router } from '../src/router.js'
import { plural, show } from '../src/show.js'

const router = new Router()
  .on('/', () => 'home')
  .on('/users/:id', ({ names, query }) => names.id + ' ' + (query.tab ?? 'all'))

test('an answer', () => {
  expect(router.answer('/users/7?tab=mail')).toBe('7 mail')
})

test('the root', () => {
  expect(router.answer('/')).toBe('home')
})

test('nothing answers', () => {
  expect(router.answer('/nowhere')).toBe('not found')
})

test('a line for each route', () => {
  expect(show(router)).toBe('/\\n/users/:id')
})

test('one and many', () => {
  expect([plural(1, 'route'), plural(2, 'route')]).toEqual(['1 route', '2 routes'])
})
`,
}
