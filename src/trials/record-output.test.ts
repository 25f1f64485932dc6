import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { recordOutput } from './record-output.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-recording-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function readCast(name: string) {
  const [header, ...events] = (await readFile(join(folder, name), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  return { header, events: events as [number, string, string][] }
}

test('output is recorded with the time at which it was written, as an asciicast', async () => {
  const log = join(folder, 'agent.log')
  await recordOutput(log, async () => {
    for (const part of ['first\n', 'zweite Z', 'äh\r\n']) await appendFile(log, part)
  })
  const { header, events } = await readCast('agent.cast')
  expect(header).toMatchObject({ version: 2, width: 120, height: 36, timestamp: expect.any(Number) })
  expect(events.map(([, , text]) => text).join('')).toBe('first\r\nzweite Zäh\r\n')
  expect(events.every(([, kind]) => kind === 'o')).toBe(true)
  expect(events.map(([seconds]) => seconds)).toEqual(events.map(([seconds]) => seconds).toSorted((a, b) => a - b))
})

test('a log that starts again replaces what was recorded, and a program without output leaves no recording', async () => {
  const log = join(folder, 'again.log')
  await recordOutput(log, () => writeFile(log, 'a long first attempt'))
  await recordOutput(log, () => writeFile(log, 'second'))
  expect((await readCast('again.cast')).events.map(([, , text]) => text)).toEqual(['second'])
  await recordOutput(log, () => writeFile(log, ''))
  expect(await readdir(folder)).not.toContain('again.cast')
})

test('bytes that are no text, and a failing program, do not prevent the recording', async () => {
  const log = join(folder, 'bytes.log')
  const failing = recordOutput(log, async () => {
    await writeFile(log, Buffer.from([0xff, 0xc3, 0x28, 0x0a]))
    throw new Error('the agent failed')
  })
  await expect(failing).rejects.toThrow('the agent failed')
  expect((await readCast('bytes.cast')).events[0]?.[2]).toContain('\ufffd')
})
