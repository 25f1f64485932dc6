import type { SamplePull } from '../repository.ts'

export const good = {
  values: {
    number: 1,
    title: 'Values of a query may have an equals sign',
    body: 'token=abc== lost its end, and a plus was not a space.\n\nResolves #31',
    edits: {
      'src/query.ts': [
        [
          "    const [name, value] = pair.split('=')\n    if (name) pairs[decodeURIComponent(name)] = decodeURIComponent(value ?? '')\n",
          "    const [name, ...rest] = pair.replaceAll('+', ' ').split('=')\n    if (name) pairs[decodeURIComponent(name)] = decodeURIComponent(rest.join('='))\n",
        ],
      ],
      'test/query.test.ts': [
        [
          "test('nothing', () => {",
          `test('a value keeps its equals signs', () => {
  expect(query('token=abc==&x=1')).toEqual({ token: 'abc==', x: '1' })
})

test('a plus is a space', () => {
  expect(query('q=a+b')).toEqual({ q: 'a b' })
})

test('nothing', () => {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'easy',
  },
  link: {
    number: 2,
    title: 'Make a path from a pattern',
    body: 'link() is the way back: it puts values in the place of names, and refuses what is missing.',
    isMerge: true,
    branch: 'hal/link',
    edits: {
      'src/link.ts': `import { segments } from './segments.js'

/** A path that fits the pattern. What is left of the values becomes the query. */
export function link(pattern: string, values: Record<string, string> = {}): string {
  const left = new Map(Object.entries(values))
  const parts = segments(pattern).map(({ kind, text }) => {
    if (kind === 'text') return text
    const value = left.get(text)
    if (value === undefined || value === '') throw new Error('link: ' + text + ' is missing')
    left.delete(text)
    return kind === 'rest' ? value : encodeURIComponent(value)
  })
  const search = [...left].map(([name, value]) => encodeURIComponent(name) + '=' + encodeURIComponent(value))
  return '/' + parts.join('/') + (search.length > 0 ? '?' + search.join('&') : '')
}
`,
      'src/router.ts': [
        [
          "import { match, type Names } from './match.js'\n",
          "import { link } from './link.js'\nimport { match, type Names } from './match.js'\n",
        ],
        [
          '  answer(address: string): string {\n',
          `  /** The way to a route that is there. */
  link(pattern: string, values: Record<string, string> = {}): string {
    if (!this.routes.some((route) => route.pattern === pattern)) throw new Error('link: no route ' + pattern)
    return link(pattern, values)
  }

  answer(address: string): string {
`,
        ],
      ],
      'test/link.test.ts': `import { expect, test } from 'vitest'
import { link } from '../src/link.js'

test('values take the place of names', () => {
  expect(link('/users/:id/:tab', { id: '7', tab: 'a b' })).toBe('/users/7/a%20b')
})

test('what is left becomes the query', () => {
  expect(link('/users/:id', { id: '7', page: '2', q: 'x&y' })).toBe('/users/7?page=2&q=x%26y')
})

test('the rest keeps its slashes', () => {
  expect(link('/files/*', { '*': 'a/b' })).toBe('/files/a/b')
})

test('a missing value is refused by name', () => {
  expect(() => link('/users/:id')).toThrow('id is missing')
})

test('a router links only to its routes', () => {
  const router = new Router().on('/users/:id', () => '')
  expect(router.link('/users/:id', { id: '7' })).toBe('/users/7')
  expect(() => router.link('/people/:id', { id: '7' })).toThrow('no route /people/:id')
})
`,
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  slashes: {
    number: 3,
    title: 'A slash at the end makes no difference',
    edits: {
      'src/segments.ts': [
        [
          `  return pattern
    .split('/')
    .slice(1)
    .map(`,
          `  return parts(pattern).map(`,
        ],
        [
          `(text) => {
      if (text === '*') return { kind: 'rest', text }
      if (text.startsWith(':')) return { kind: 'name', text: text.slice(1) }
      return { kind: 'text', text }
    })
}
`,
          `(text) => {
    if (text === '*') return { kind: 'rest', text }
    if (text.startsWith(':')) return { kind: 'name', text: text.slice(1) }
    return { kind: 'text', text }
  })
}

/** What stands between slashes. Several in a row are one, and one at the end is none. */
export function parts(path: string): string[] {
  return path.split('/').filter((part) => part !== '')
}
`,
        ],
      ],
      'src/match.ts': [
        [
          "import type { Segment } from './segments.js'\n",
          "import { parts as partsOf, type Segment } from './segments.js'\n",
        ],
        ["  const parts = path.split('/').slice(1)\n", '  const parts = partsOf(path)\n'],
      ],
      'test/match.test.ts': [
        [
          "test('a longer path does not fit', () => {",
          `test('slashes at the end and in a row', () => {
  expect(match(segments('/users/:id'), '/users/7/')).toEqual({ id: '7' })
  expect(match(segments('/users/:id/'), '//users//7')).toEqual({ id: '7' })
  expect(match(segments('/'), '/')).toEqual({})
})

test('a longer path does not fit', () => {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  methods: {
    number: 4,
    title: 'Routes have methods',
    body: `A route may begin with a method: "POST /users". Without one it is GET. A path that is known by another method
says so. Lists of routes show methods in a column.`,
    isMerge: true,
    branch: 'ivy/methods',
    edits: {
      'src/method.ts': `const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type Method = (typeof METHODS)[number]

const isMethod = (word: string): word is Method => METHODS.some((method) => method === word)

/** "POST /users" is a method and a pattern. Without a method it is GET. */
export function readMethod(text: string): { method: Method; pattern: string } {
  const [word = '', pattern] = text.split(' ')
  if (pattern === undefined) return { method: 'GET', pattern: word }
  const method = word.toUpperCase()
  if (!isMethod(method)) throw new Error('no such method: ' + word)
  return { method, pattern }
}
`,
      'src/router.ts': [
        [
          "import { query } from './query.js'\n",
          "import { type Method, readMethod } from './method.js'\nimport { query } from './query.js'\n",
        ],
        ['type Route = { pattern: string;', 'type Route = { method: Method; pattern: string;'],
        [
          '  on(pattern: string, answer: Answer): this {\n    this.routes.push({ pattern, segments: segments(pattern), answer })\n',
          '  on(text: string, answer: Answer): this {\n    const { method, pattern } = readMethod(text)\n    this.routes.push({ method, pattern, segments: segments(pattern), answer })\n',
        ],
        [
          "    const [path = '', search = ''] = address.split('?')\n",
          "    const { method, pattern } = readMethod(address)\n    const [path = '', search = ''] = pattern.split('?')\n    let isKnown = false\n",
        ],
        [
          '      if (names) return route.answer({ names, query: query(search) })\n    }\n',
          '      if (names && route.method === method) return route.answer({ names, query: query(search) })\n      isKnown ||= names !== undefined\n    }\n    if (isKnown) return refusal(method)\n',
        ],
        [
          "import { type Segment, segments } from './segments.js'\n",
          "import { refusal } from './refusal.js'\nimport { type Segment, segments } from './segments.js'\n",
        ],
      ],
      'src/refusal.ts': `import type { Method } from './method.js'

export const refusal = (method: Method): string => method + ' is not allowed here'
`,
      'src/show.ts': [
        [
          '  return router.routes.map(({ pattern }) => pattern).join(',
          '  return router.routes.map(({ method, pattern }) => column(method) + pattern).join(',
        ],
        [
          "import type { Router } from './router.js'\n",
          "import { column } from './column.js'\nimport type { Router } from './router.js'\n",
        ],
      ],
      'src/column.ts': `const WIDTH = 7

export const column = (text: string): string => text.padEnd(WIDTH)
`,
      'test/methods.test.ts': `import { expect, test } from 'vitest'
import { Router } from '../src/router.js'

const router = new Router()
  .on('/users', () => 'all')
  .on('POST /users', () => 'added')
  .on('delete /users/:id', ({ names }) => 'no ' + names.id)

test('the same path by two methods', () => {
  expect([router.answer('/users'), router.answer('POST /users')]).toEqual(['all', 'added'])
})

test('a method in small letters', () => {
  expect(router.answer('DELETE /users/7')).toBe('no 7')
})

test('a path that another method has', () => {
  expect(router.answer('PUT /users')).toBe('PUT is not allowed here')
})

test('a path that no method has', () => {
  expect(router.answer('POST /people')).toBe('not found')
})

test('a word that is no method', () => {
  expect(() => new Router().on('FETCH /users', () => '')).toThrow('no such method: FETCH')
})
`,
      'test/router.test.ts': [
        [
          "  expect(show(router)).toBe('/\\n/users/:id')",
          "  expect(show(router)).toBe('GET    /\\nGET    /users/:id')",
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'hard',
  },
} satisfies Record<string, SamplePull>
