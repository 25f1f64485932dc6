import { expect, test } from 'vitest'
import { planSnapshot } from './base-filesystem.ts'
import { compareListings, type FileListing, isSince } from './listing.ts'

const MARK = '100.5'

/** Builds a listing from lines such as `d 90.1 /etc`. */
const listing = (...lines: string[]): FileListing =>
  new Map(
    lines.map((line) => {
      const [type = '', changedAt = '', path = ''] = line.split(' ')
      return [path, { type, changedAt, bytes: 0 }]
    }),
  )

const image = listing('d 1.0 /', 'd 1.0 /etc', 'f 1.0 /etc/issue', 'f 1.0 /etc/gone', 'd 1.0 /opt', 'f 1.0 /opt/file')

test.each([
  ['100.5', true],
  ['100.4999999999', false],
  ['100.50000000001', true],
  ['99.9', false],
  ['1000.0', true],
])('a status change at %s is since the mark: %s', (changedAt, expected) => {
  expect(isSince(changedAt, MARK)).toBe(expected)
})

test('lists new, changed and deleted paths, and no folder of which only the rights differ', () => {
  const now = listing(
    'd 101.0 /',
    'd 101.0 /etc',
    'f 101.0 /etc/issue',
    'd 101.0 /new',
    'l 101.0 /new/link',
    'f 101.0 /opt',
  )
  expect([...compareListings(image, now, MARK)].map(({ kind, path }) => `${kind} ${path}`)).toEqual([
    'file /etc/issue',
    'folder /new',
    'file /new/link',
    'file /opt',
    'deleted /etc/gone',
    'deleted /opt/file',
  ])
})

test('a name that is not UTF-8 is marked as unreadable', () => {
  const now = listing('f 101.0 /\xff')
  expect([...compareListings(new Map(), now, MARK)]).toEqual([{ path: '/\uFFFD', kind: 'file', isUnreadable: true }])
})

test('a snapshot takes changes and removes what was deleted or replaced', () => {
  const now = listing('d 1.0 /', 'd 101.0 /etc', 'f 101.0 /etc/issue', 's 101.0 /etc/socket', 'f 101.0 /opt')
  expect(planSnapshot(image, now, MARK, [])).toEqual({
    copied: ['/etc', '/etc/issue', '/opt'],
    removedFiles: ['/etc/gone', '/opt/file'],
    removedFolders: ['/opt'],
  })
})

test('a snapshot keeps the image at protected paths, also when a folder above was replaced or deleted', () => {
  const replaced = listing('d 1.0 /', 'd 1.0 /etc', 'f 1.0 /etc/issue', 'f 1.0 /etc/gone', 'l 101.0 /opt')
  expect(planSnapshot(image, replaced, MARK, ['/opt/file'])).toEqual({
    copied: [],
    removedFiles: [],
    removedFolders: [],
  })
  const deleted = listing('d 101.0 /')
  expect(planSnapshot(image, deleted, MARK, ['/opt/file', '/etc'])).toEqual({
    copied: ['/'],
    removedFiles: [],
    removedFolders: ['/opt'],
  })
})
