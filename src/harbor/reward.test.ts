import { execFileSync } from 'node:child_process'
import { chmod, link, mkdir, open, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type FileContents, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import { readReward } from './reward.ts'

async function read(files: FileContents) {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, files)
  return await readReward(folder.path)
}

const reward = (value: number | null, rewards: Record<string, number>) => ({
  kind: 'reward',
  passed: value !== null && value >= 1,
  reward: value,
  rewards,
})

test.each<[text: string, value: number]>([
  ['1', 1],
  ['1\n', 1],
  [' 0.0 \r\n', 0],
  ['1.0', 1],
  ['.5', 0.5],
  ['1.', 1],
  ['+1', 1],
  ['-0.25', -0.25],
  ['1e-05', 0.00001],
  ['1000000', 1_000_000],
])('reads reward.txt %j', async (text, value) => {
  expect(await read({ 'reward.txt': text })).toEqual(reward(value, { reward: value }))
})

test.each<[text: string, value: number | null, rewards: Record<string, number>]>([
  ['{"reward": 1}', 1, { reward: 1 }],
  ['{"accuracy": 0.5}\n', 0.5, { accuracy: 0.5 }],
  ['{"style": 1, "reward": 0.25}', 0.25, { style: 1, reward: 0.25 }],
  ['{"a": 1, "b": 1}', null, { a: 1, b: 1 }],
])('reads reward.json %j', async (text, value, rewards) => {
  expect(await read({ 'reward.json': text })).toEqual(reward(value, rewards))
})

test.each([
  ['', 'empty'],
  [' \n', 'not_a_number'],
  ['NaN', 'not_a_number'],
  ['nan', 'not_a_number'],
  ['Infinity', 'not_a_number'],
  ['-inf', 'not_a_number'],
  ['1e309', 'not_a_number'],
  ['1e9', 'out_of_range'],
  ['-1e9', 'out_of_range'],
  ['1_000', 'not_a_number'],
  ['0x1', 'not_a_number'],
  ['1 1', 'not_a_number'],
  ['1,0', 'not_a_number'],
  ['true', 'not_a_number'],
  ['\uFEFF1', 'not_a_number'],
  ['１', 'not_a_number'],
  [`1.${'0'.repeat(100)}`, 'not_a_number'],
  ['{"reward": 1}', 'not_a_number'],
])('refuses reward.txt %j', async (text, reason) => {
  expect(await read({ 'reward.txt': text })).toMatchObject({ kind: 'refused', file: 'reward.txt', reason })
})

test.each([
  ['', 'empty'],
  ['1', 'not_rewards'],
  ['[1]', 'not_rewards'],
  ['null', 'not_rewards'],
  ['{}', 'not_rewards'],
  ['{"reward": "1"}', 'not_rewards'],
  ['{"reward": true}', 'not_rewards'],
  ['{"reward": null}', 'not_rewards'],
  ['{"reward": NaN}', 'not_rewards'],
  ['{"reward": 1e309}', 'not_rewards'],
  ['{"reward": 1e9}', 'out_of_range'],
  ['{"reward": 1, "note": "x"}', 'not_rewards'],
  ['{"reward": {"x": 1}}', 'not_rewards'],
  ['{"reward": 0, "reward": 1}', 'not_rewards'],
  ['{"reward": 0, "\\u0072eward": 1}', 'not_rewards'],
  ['{"": 1}', 'not_rewards'],
  ['{"reward": 1} x', 'not_rewards'],
  ['\uFEFF{"reward": 1}', 'not_rewards'],
  [JSON.stringify(Object.fromEntries(Array.from({ length: 101 }, (_, key) => [key, 1]))), 'not_rewards'],
])('refuses reward.json %j', async (text, reason) => {
  expect(await read({ 'reward.json': text })).toMatchObject({ kind: 'refused', file: 'reward.json', reason })
})

test('reads a reward called __proto__', async () => {
  const found = await read({ 'reward.json': '{"__proto__": 1}' })

  expect(JSON.stringify(found)).toBe('{"kind":"reward","passed":true,"reward":1,"rewards":{"__proto__":1}}')
})

test('prefers reward.json if both files agree and refuses files that disagree', async () => {
  const json = '{"reward": 1, "style": 0.5}'

  expect(await read({ 'reward.json': json, 'reward.txt': '1.0' })).toEqual(reward(1, { reward: 1, style: 0.5 }))
  expect(await read({ 'reward.json': json, 'reward.txt': '0' })).toMatchObject({ reason: 'files_disagree' })
  expect(await read({ 'reward.json': '{"a": 1, "b": 1}', 'reward.txt': '1' })).toMatchObject({
    reason: 'files_disagree',
  })
  expect(await read({ 'reward.json': json, 'reward.txt': 'x' })).toMatchObject({ reason: 'not_a_number' })
  expect(await read({ 'reward.json': 'x', 'reward.txt': '1' })).toMatchObject({ reason: 'not_rewards' })
})

test('reports a missing reward for an empty or missing folder', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'file'), '')
  await mkdir(join(folder.path, 'real'))
  await writeFile(join(folder.path, 'real/reward.txt'), '1')
  await symlink('real', join(folder.path, 'link'))

  expect(await readReward(folder.path)).toEqual({ kind: 'missing' })
  expect(await readReward(join(folder.path, 'absent'))).toEqual({ kind: 'missing' })
  expect(await readReward(join(folder.path, 'file'))).toEqual({ kind: 'missing' })
  expect(await readReward(join(folder.path, 'link'))).toEqual({ kind: 'missing' })
})

const TRICKS: [what: string, reason: string, play: (path: string) => Promise<unknown>][] = [
  ['a link to a number of the host', 'not_a_file', (path) => symlink('/proc/sys/net/ipv4/ip_forward', path)],
  ['a link to a good file beside it', 'not_a_file', (path) => symlink('good', path)],
  ['a link to nowhere', 'not_a_file', (path) => symlink('nowhere', path)],
  ['a second name of a file', 'linked', (path) => link(join(path, '../good'), path)],
  ['a pipe that nobody writes to', 'not_a_file', async (path) => execFileSync('/usr/bin/mkfifo', [path])],
  ['a folder', 'not_a_file', (path) => mkdir(path)],
  ['five gigabytes', 'too_large', (path) => sparse(path, 5e9)],
  ['one byte too many', 'too_large', (path) => writeFile(path, ' '.repeat(65_537))],
  ['no text', 'not_utf8', (path) => writeFile(path, Buffer.from([0x31, 0xff]))],
]

async function sparse(path: string, bytes: number): Promise<void> {
  await using file = await open(path, 'w')
  await file.truncate(bytes)
}

test.each(
  TRICKS.flatMap(([what, reason, play]) => ['reward.txt', 'reward.json'].map((file) => ({ file, what, reason, play }))),
)('$file is $what: $reason', async ({ file, reason, play }) => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'good'), file === 'reward.txt' ? '1' : '{"reward": 1}')
  await play(join(folder.path, file))
  const started = performance.now()

  expect(await readReward(folder.path)).toMatchObject({ kind: 'refused', file, reason })
  expect(performance.now() - started).toBeLessThan(1000)
})

test('refuses a socket', async () => {
  await using folder = await temporaryFolder()
  await using server = createServer()
  await new Promise<void>((resolve) => server.listen(join(folder.path, 'reward.txt'), resolve))

  expect(await readReward(folder.path)).toMatchObject({ kind: 'refused', reason: 'not_a_file' })
})

test.skipIf(process.getuid?.() === 0)('refuses a file that may not be read', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'reward.txt'), '1')
  await chmod(join(folder.path, 'reward.txt'), 0)

  expect(await readReward(folder.path)).toMatchObject({ kind: 'refused', reason: 'unreadable' })
})

test('handles random bytes, and only a finite number passes', async () => {
  await using folder = await temporaryFolder()
  const texts = fc.oneof(fc.double().map(String), fc.json(), fc.string()).map((text) => Buffer.from(text))
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('reward.txt', 'reward.json'),
      fc.oneof(
        texts,
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      ),
      async (file, content) => {
        await writeFiles(folder.path, { 'reward.txt': '', 'reward.json': '', [file]: content })
        await rm(join(folder.path, file === 'reward.txt' ? 'reward.json' : 'reward.txt'))
        const found = await readReward(folder.path)
        if (found.kind === 'reward') expect(Object.values(found.rewards).every(Number.isFinite)).toBe(true)
        if (found.kind === 'reward') expect(found.passed).toBe(found.reward !== null && found.reward >= 1)
      },
    ),
    { numRuns: 300 },
  )
})
