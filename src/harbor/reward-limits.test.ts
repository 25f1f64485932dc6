import { link, mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { type FileContents, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import { REWARD_BYTES_MAX } from './limits.ts'
import { readReward, toOpenRefusal } from './reward.ts'

async function read(files: FileContents) {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, files)
  return await readReward(folder.path)
}

const keys = (count: number, length = 1): string =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`${index}`.padStart(length, 'k'), 1])))

describe('accepts a reward at the limit and refuses it beyond', () => {
  test.each<[what: string, file: string, accepted: string, refused: string, reason: string]>([
    ['bytes', 'reward.txt', '1'.padEnd(REWARD_BYTES_MAX), '1'.padEnd(REWARD_BYTES_MAX + 1), 'too_large'],
    ['digits', 'reward.txt', '1.'.padEnd(64, '0'), '1.'.padEnd(65, '0'), 'not_a_number'],
    ['the largest reward', 'reward.txt', '1000000', '1000000.1', 'out_of_range'],
    ['the smallest reward', 'reward.txt', '-1000000', '-1000000.1', 'out_of_range'],
    ['one large reward among others', 'reward.json', '{"a":1e6,"b":0}', '{"a":0,"b":1000001,"c":0}', 'out_of_range'],
    ['keys', 'reward.json', keys(100), keys(101), 'not_rewards'],
    ['the length of a key', 'reward.json', keys(1, 200), keys(1, 201), 'not_rewards'],
    [
      'the length of one key among others',
      'reward.json',
      keys(2, 200),
      `{"a":1,"${'k'.repeat(201)}":1}`,
      'not_rewards',
    ],
    ['an empty key among others', 'reward.json', '{"a":1,"b":1}', '{"a":1,"":1}', 'not_rewards'],
  ])('%s', async (_, file, accepted, refused, reason) => {
    expect(await read({ [file]: accepted })).toMatchObject({ kind: 'reward' })
    expect(await read({ [file]: refused })).toMatchObject({ kind: 'refused', file, reason })
  })
})

test.each<[text: string, value: number]>([
  ['12.5', 12.5],
  ['.25', 0.25],
  ['120', 120],
  ['1E2', 100],
  ['1e+2', 100],
  ['15e-1', 1.5],
  ['-.5', -0.5],
  ['\t\r\n 7 \t\r\n', 7],
])('reads reward.txt %j as %d', async (text, value) => {
  expect(await read({ 'reward.txt': text })).toMatchObject({ kind: 'reward', reward: value, passed: value >= 1 })
})

test.each<[files: FileContents, message: RegExp]>([
  [{ 'reward.txt': '' }, /^The file is empty\.$/],
  [{ 'reward.txt': 'x' }, /exactly one finite number/],
  [{ 'reward.json': 'x' }, /object of finite numbers/],
  [{ 'reward.txt': Buffer.from([0xff]) }, /UTF-8/],
  [{ 'reward.txt': '2e6' }, /between -1000000 and 1000000/],
  [{ 'reward.txt': ' '.repeat(REWARD_BYTES_MAX + 1) }, new RegExp(`${REWARD_BYTES_MAX} bytes`)],
  [{ 'reward.txt': '1', 'reward.json': '{"reward":0}' }, /contradicts reward\.json/],
])('explains why %j is refused', async (files, message) => {
  expect(await read(files)).toMatchObject({ kind: 'refused', message: expect.stringMatching(message) })
})

test('explains why a file that is not regular is refused', async () => {
  await using folder = await temporaryFolder()
  await symlink('nowhere', join(folder.path, 'reward.txt'))
  expect(await readReward(folder.path)).toMatchObject({ message: 'The file is a symbolic link.' })
  await rm(join(folder.path, 'reward.txt'))
  await writeFile(join(folder.path, 'reward.txt'), '1')
  await link(join(folder.path, 'reward.txt'), join(folder.path, 'other'))
  expect(await readReward(folder.path)).toMatchObject({ message: 'The file has more than one hard link.' })
  await mkdir(join(folder.path, 'reward.json'))
  expect(await readReward(folder.path)).toMatchObject({ file: 'reward.json', message: 'Not a regular file.' })
})

test.each<[code: string, reason: string | undefined, message: string | undefined]>([
  ['ELOOP', 'not_a_file', 'The file is a symbolic link.'],
  ['ENXIO', 'not_a_file', 'Not a regular file.'],
  ['ENODEV', 'not_a_file', 'Not a regular file.'],
  ['EACCES', 'unreadable', 'Permission denied.'],
  ['EPERM', 'unreadable', 'Permission denied.'],
  ['EIO', undefined, undefined],
  ['EMFILE', undefined, undefined],
])('reports a file whose open fails with %s as %s', (code, reason, message) => {
  const expected = reason && { kind: 'refused', file: 'reward.txt', reason, message }
  expect(toOpenRefusal('reward.txt', code)).toEqual(expected)
})

test('treats a missing folder as a missing reward and throws any other error', async () => {
  await using folder = await temporaryFolder()
  await symlink('loop', join(folder.path, 'loop'))
  await writeFile(join(folder.path, 'file'), '')
  for (const name of ['absent', 'loop/x', 'file', 'file/x'])
    expect(await readReward(join(folder.path, name))).toEqual({ kind: 'missing' })
  await expect(readReward(join(folder.path, 'x'.repeat(300)))).rejects.toThrow('ENAMETOOLONG')
})

test.each([
  ['digits', '1'.repeat(REWARD_BYTES_MAX - 1).concat('x')],
  ['digits and spaces', '1'.repeat(30_000).concat(' '.repeat(30_000), 'x')],
  ['spaces', ' '.repeat(REWARD_BYTES_MAX - 1).concat('x')],
])('refuses %s within milliseconds', async (_, text) => {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, { 'reward.txt': text })
  expect(await cpuMs(() => readReward(folder.path))).toBeLessThan(100)
  expect(await readReward(folder.path)).toMatchObject({ kind: 'refused', reason: 'not_a_number' })
})
