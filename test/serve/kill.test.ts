import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { listKeys } from '../../src/workspaces/schema.ts'
import { seeded } from '../support/seeded.ts'
import { startService } from '../support/service.ts'

const ROUNDS = process.env.ASSAY_TEST_LONG ? 50 : 5
const CLIENTS = 4

test(`kill -9 of serve under a write load, ${ROUNDS} times, half of them with the postmaster: no acknowledged write is lost`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-kill-'))
  const key = newKey()
  const random = seeded(20261115)
  const acknowledged: string[] = []
  const start = () => startService('serve', ['--data', folder, '--port', '0'], { ASSAY_BOOTSTRAP_KEY: key })

  for (let round = 0; round < ROUNDS; round++) {
    const service = await start()
    const enough = Promise.withResolvers<void>()
    const wanted = acknowledged.length + 1 + Math.floor(random() * 60)
    const note = (name: string) => {
      if (acknowledged.push(name) >= wanted) enough.resolve()
    }
    const load = Array.from({ length: CLIENTS }, (_, client) => write(service.url, key, `r${round}-c${client}`, note))
    await enough.promise
    await wait(random() * 20)
    if (round % 2 === 1) process.kill(postmasterOf(folder), 'SIGKILL')
    await service.kill('SIGKILL')
    await Promise.all(load)
  }

  const service = await start()
  const names = await namesOf(service.url, key)
  expect(acknowledged.filter((name) => !names.has(name))).toEqual([])
  const doctor = await fetch(`${service.url}/api/orgs/local/doctor`, { headers: { authorization: `Bearer ${key}` } })
  expect(await doctor.json()).toMatchObject({ ok: true })
  expect(await service.kill('SIGTERM')).toBe(0)
  console.log(`${ROUNDS} kills, ${acknowledged.length} acknowledged writes, 0 lost`)
  rmSync(folder, { recursive: true, force: true })
})

/** Creates keys in sequence until the service stops, and records the acknowledged ones. */
async function write(url: string, key: string, prefix: string, note: (name: string) => void): Promise<void> {
  for (let n = 0; ; n++) {
    const name = `${prefix}-${n}`
    const answer = await fetch(`${url}/api/orgs/local/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name, permission: 'read' }),
    }).catch(() => undefined)
    if (!answer) return
    if (answer.status === 201) note(name)
  }
}

async function namesOf(url: string, key: string): Promise<Set<string>> {
  const names = new Set<string>()
  let cursor: string | null = ''
  while (cursor !== null) {
    const query: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''
    const answer = await fetch(`${url}/api/orgs/local/keys?limit=200${query}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = listKeys.answers[200].parse(await answer.json())
    for (const { name } of page.keys) {
      expect(names.has(name)).toBe(false)
      names.add(name)
    }
    cursor = page.nextCursor
  }
  return names
}

const postmasterOf = (folder: string): number =>
  Number(readFileSync(join(folder, 'postgres/data/postmaster.pid'), 'utf8').split('\n')[0])
