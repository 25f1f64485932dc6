import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startService } from '../support/service.ts'

test('serve restarts its database whenever it is killed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-revive-'))
  const service = await startService('serve', ['--data', folder, '--port', '0'])
  const read = async () =>
    (await fetch(`${service.url}/api/key`, { headers: { authorization: `Bearer ${service.newKey}` } })).status
  const postmaster = () => readFileSync(join(folder, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0]
  for (const _ of [1, 2]) {
    expect(await read()).toBe(200)
    const killed = postmaster()
    process.kill(Number(killed), 'SIGKILL')
    await expect.poll(postmaster, { timeout: 60_000 }).not.toBe(killed)
    await expect.poll(read, { timeout: 60_000 }).toBe(200)
  }
  expect(await service.kill('SIGTERM')).toBe(0)
  rmSync(folder, { recursive: true, force: true })
})

test('serve stops cleanly while its database is down or restarting', async () => {
  for (const delayMs of [0, 50, 100, 150, 200]) {
    const folder = mkdtempSync(join(tmpdir(), 'assay-revive-'))
    const service = await startService('serve', ['--data', folder, '--port', '0'])
    process.kill(Number(readFileSync(join(folder, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0]), 'SIGKILL')
    await wait(delayMs)
    expect(await service.kill('SIGTERM')).toBe(0)
    rmSync(folder, { recursive: true, force: true })
  }
})
