import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/support/harbor/folders.ts'
import { pax, type RawEntry, rawEntry, tar, tgz } from '../../test/support/harbor/raw-tar.ts'
import { findRefusal } from '../../test/support/harbor/unpacking.ts'
import { unpack } from './archive.ts'

// Each test also checks that the refusal leaves no files in the folder or beside it.

const FILE: RawEntry = { name: 'a', content: 'hello' }

const link = (name: string, target: string): RawEntry => ({ name, target, type: '2' })
const huge = Buffer.from([0x80, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff])

test.each<[what: string, archive: Buffer, reason: string]>([
  ['..', tar({ name: '../a' }), 'unsafe_path'],
  ['.. further in', tar({ name: 'a/../../b' }), 'unsafe_path'],
  ['.. after a dot', tar({ name: './../a' }), 'unsafe_path'],
  ['.. at the end', tar({ name: 'a/..' }), 'unsafe_path'],
  ['a folder ..', tar({ name: '../', type: '5' }), 'unsafe_path'],
  ['.. in a long name', tar({ name: 'x', type: 'L', content: '../../etc/passwd\0' }, FILE), 'unsafe_path'],
  ['.. in an extended header', tar(pax({ path: '../a' }), FILE), 'unsafe_path'],
  ['.. in a prefix', tar({ ...FILE, prefix: '../x' }), 'unsafe_path'],
  ['an absolute path', tar({ name: '/etc/passwd' }), 'unsafe_path'],
  ['an absolute path after a dot', tar({ name: './/etc/passwd' }), 'unsafe_path'],
  ['a backslash', tar({ name: '..\\a' }), 'unsafe_path'],
  ['a drive', tar({ name: 'C:\\a' }), 'unsafe_path'],
  ['a control character', tar({ name: 'a\u001bb' }), 'unsafe_path'],
  ['a NUL in a name', tar(pax({ path: 'a\0b' }), FILE), 'unsafe_path'],
  ['a name that is no UTF-8', tar({ name: Buffer.from([0x61, 0xff]) }), 'unsafe_path'],
  ['a long name that is no UTF-8', tar({ name: 'x', type: 'L', content: Buffer.from([0xff, 0]) }, FILE), 'unsafe_path'],
  ['an empty part', tar({ name: 'a//b' }), 'unsafe_path'],
  ['no name', tar({ name: '' }), 'unsafe_path'],
  ['a long path', tar(pax({ path: 'a/'.repeat(20) + 'b'.repeat(1000) }), FILE), 'path_too_long'],
  ['a long name', tar(pax({ path: 'b'.repeat(256) }), FILE), 'path_too_long'],
  ['an endless name', tar({ name: 'x', type: 'L', content: 'a'.repeat(20_000) }, FILE), 'path_too_long'],
  ['a deep path', tar(pax({ path: `${'a/'.repeat(40)}b` }), FILE), 'path_too_deep'],
  ['a link', tar(link('a', 'b')), 'link'],
  ['a hard link', tar(FILE, { name: 'b', target: 'a', type: '1' }), 'link'],
  ['a hard link out', tar({ name: 'b', target: '/etc/passwd', type: '1' }), 'link'],
  ['a character device', tar({ name: 'a', type: '3' }), 'special_file'],
  ['a block device', tar({ name: 'a', type: '4' }), 'special_file'],
  ['a pipe', tar({ name: 'a', type: '6' }), 'special_file'],
  ['a kind of entry that nobody knows', tar({ name: 'a', type: 'Z' }), 'special_file'],
  ['a sparse file by GNU', tar({ name: 'a', type: 'S', size: 0 }), 'sparse'],
  [
    'a sparse file by POSIX',
    tar(pax({ 'GNU.sparse.major': '1', 'GNU.sparse.realsize': '10737418240' }), FILE),
    'sparse',
  ],
  ['the same file twice', tar(FILE, FILE), 'duplicate'],
  ['names that differ in case', tar({ name: 'a' }, { name: 'A' }), 'collision'],
  ['folders that differ in case', tar({ name: 'x/a' }, { name: 'X/b' }), 'collision'],
  ['names that are one after NFKC', tar({ name: 'ﬁ' }, { name: 'fi' }), 'collision'],
  ['two spellings of an accent', tar({ name: 'é' }, { name: 'e\u0301' }), 'collision'],
  ['a sharp s', tar({ name: 'STRASSE' }, { name: 'straße' }), 'collision'],
  ['a file in a file', tar({ name: 'a' }, { name: 'a/b' }), 'under_a_file'],
  ['a file where a folder is', tar({ name: 'a/b' }, { name: 'a' }), 'duplicate'],
  ['a size that is a lie', tar({ name: 'a', size: 5e8 }), 'damaged'],
  ['more bytes than a file may have', tar({ name: 'a', size: 6e8 }), 'file_too_large'],
  ['a size beyond all numbers', tar({ name: 'a', size: huge }), 'file_too_large'],
  ['a size that is no number at all', tar({ name: 'a', size: Buffer.alloc(12, 0xa6) }), 'damaged'],
  ['a negative size', tar({ name: 'a', size: Buffer.alloc(12, 0xff) }), 'damaged'],
  ['a size in an extended header', tar(pax({ size: '99999999999' }), FILE), 'file_too_large'],
  ['a size that is no number', tar(pax({ size: '1e3' }), FILE), 'damaged'],
  ['a folder with content', tar({ name: 'a', type: '6', content: 'x' }), 'special_file'],
  ['a broken extended header', tar({ name: 'x', type: 'x', content: '99 path=a\n' }, FILE), 'damaged'],
  ['a global header that names entries', tar({ ...pax({ path: 'x' }), type: 'g' }, FILE), 'damaged'],
  ['an extended header and no entry', tar(pax({ path: 'x' })), 'damaged'],
  ['entries after the end', Buffer.concat([tar(FILE), tar({ name: 'b' })]), 'damaged'],
  ['half an archive', tar(FILE).subarray(0, 515), 'damaged'],
  ['half a gzip', tgz(FILE).subarray(0, 30), 'damaged'],
  ['a gzip of a gzip', gzipSync(tgz(FILE)), 'damaged'],
  ['a wrong checksum', tar(FILE).fill(0x37, 148, 149), 'damaged'],
  ['no archive', Buffer.from('hello'.repeat(200)), 'damaged'],
  ['a zip', Buffer.concat([Buffer.from('PK\u0003\u0004'), Buffer.alloc(600, 1)]), 'damaged'],
  ['nothing', Buffer.alloc(0), 'empty'],
  ['zeros', Buffer.alloc(10_240), 'empty'],
])('%s', async (_, archive, reason) => {
  expect(await findRefusal(archive)).toBe(reason)
})

test.each<[what: string, archive: Buffer, reason: string]>([
  ['an absolute one', tar(link('a', '/etc')), 'link_outside'],
  ['one that leads out', tar(link('x/a', '../../b')), 'link_outside'],
  ['one that leads out and in again', tar(link('a', '../task/b')), 'link_outside'],
  ['an empty one', tar(link('a', '')), 'link_outside'],
  ['one with a backslash', tar(link('a', '..\\b')), 'link_outside'],
  ['a chain', tar(link('a', 'b'), link('b', 'c')), 'through_a_link'],
  ['a chain in the other order', tar(link('b', 'c'), link('a', 'b')), 'through_a_link'],
  ['a circle', tar(link('a', 'a')), 'through_a_link'],
  ['one that goes up through another', tar(link('d', 'x/y/z'), link('e', 'd/../../../out')), 'through_a_link'],
  ['a file through it', tar(link('d', 'x'), { name: 'd/f' }), 'through_a_link'],
  ['a file in its place', tar(link('d', 'x'), { name: 'd' }), 'duplicate'],
  ['a folder in its place', tar(link('d', 'x'), { name: 'd/', type: '5' }), 'through_a_link'],
  ['a hard link to it', tar(link('d', 'x'), { name: 'e', target: 'd', type: '1' }), 'link'],
])('refuses even if links are allowed: %s', async (_, archive, reason) => {
  expect(await findRefusal(archive, { links: 'inside' })).toBe(reason)
})

test('refuses too many entries', async () => {
  const entry = (_: unknown, place: number) => rawEntry({ name: `f${place}` })
  const many = Readable.from(
    (function* () {
      for (let place = 0; place < 1_000_000; place++) yield entry(undefined, place)
    })(),
  )

  expect(await findRefusal(many, { entries: 2000 })).toBe('too_many_entries')
  expect(many.destroyed).toBe(true)
})

test('refuses too many bytes in one file or in total', async () => {
  const content = Buffer.alloc(600_000)

  expect(await findRefusal(tgz({ name: 'a', content }), { fileBytes: 599_999 })).toBe('file_too_large')
  expect(await findRefusal(tgz({ name: 'a', content }, { name: 'b', content }), { totalBytes: 1_000_000 })).toBe(
    'too_large',
  )
})

test('refuses a compression bomb before unpacking it', async () => {
  const bomb = tgz({ name: 'zeros', content: Buffer.alloc(64 * 1024 * 1024) })

  expect(bomb.length).toBeLessThan(100_000)
  expect(await findRefusal(bomb)).toBe('compressed_too_much')
})

test('limits the zeros after the end of an archive', async () => {
  const endless = Readable.from(
    (function* () {
      yield tar(FILE)
      for (;;) yield Buffer.alloc(1_000_000)
    })(),
  )

  expect(await findRefusal(endless, { totalBytes: 1000, entries: 10 })).toBe('too_large')
})

test('refuses a stream that stalls', async () => {
  const stuck = new Readable({ read() {} })
  stuck.push(tar(FILE).subarray(0, 600))

  expect(await findRefusal(stuck, { timeMs: 20 })).toBe('too_slow')
})

test('rethrows an error of the source and leaves no files', async () => {
  await using place = await temporaryFolder()
  const breaking = Readable.from(
    (function* () {
      yield tgz(FILE).subarray(0, 20)
      throw new Error('the other side hung up')
    })(),
  )

  await expect(unpack(breaking, join(place.path, 'task'))).rejects.toThrow('the other side hung up')
  expect(await readdir(place.path)).toEqual([])
})
