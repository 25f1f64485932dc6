import { randomBytes } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openRotationFixture } from '../../test/support/credentials/rotation-fixture.ts'
import { testDatabase } from '../../test/support/database.ts'
import { transact } from '../platform/db/db.ts'
import { ROTATION_STEPS, rotateMasterKey } from './rotate-master-key.ts'
import { SealBroken } from './seal.ts'
import { openSecret } from './secrets.ts'

test('moves every secret to the new key, the only one left, while processes keep running', async () => {
  await using service = await openRotationFixture()
  const running = await service.process()
  const ids = await service.store(running, 3)
  const before = await service.rows()

  const rotation = await rotateMasterKey(service.place)

  const [old] = before
  expect(rotation).toMatchObject({ from: old?.master_key_id, rewrapped: 3, broken: [] })
  expect(await service.activeKey()).toBe(rotation.to)
  expect((await service.keyFile()).map(({ id }) => id)).toEqual([rotation.to])
  expect((await stat(join(service.place.dataFolder, 'secret.key'))).mode & 0o777).toBe(0o600)
  expect(await readdir(service.place.dataFolder)).toEqual(['secret.key'])

  const after = await service.rows()
  expect(after.map(({ ciphertext }) => ciphertext)).toEqual(before.map(({ ciphertext }) => ciphertext))
  expect(after.map(({ master_key_id }) => master_key_id)).toEqual(ids.map(() => rotation.to))
  for (const process of [running, await service.process()]) expect(await service.open(process, ids)).toEqual(ids)

  await service.store(running, 1)
  expect(new Set((await service.rows()).map(({ master_key_id }) => master_key_id))).toEqual(new Set([rotation.to]))
})

describe('a rotation that dies', () => {
  test.each(ROTATION_STEPS)('after "%s" leaves every secret open, and can be done again', async (fatal) => {
    await using service = await openRotationFixture()
    const running = await service.process()
    const ids = await service.store(running, 3)
    const onStep = (step: string) => {
      if (step === fatal) throw new Error('killed')
    }
    await expect(rotateMasterKey({ ...service.place, onStep })).rejects.toThrow('killed')

    const restarted = await service.process()
    for (const process of [running, restarted]) expect(await service.open(process, ids)).toEqual(ids)
    ids.push(...(await service.store(running, 1)), ...(await service.store(restarted, 1)))

    const { to } = await rotateMasterKey(service.place)
    expect((await service.keyFile()).map(({ id }) => id)).toEqual([to])
    expect(await service.activeKey()).toBe(to)
    for (const process of [running, restarted, await service.process()]) {
      expect(await service.open(process, ids)).toEqual(ids)
    }
  })

  test('before its commit is resumed with the key it had created', async () => {
    await using service = await openRotationFixture()
    const onStep = () => {
      throw new Error('killed')
    }
    await expect(rotateMasterKey({ ...service.place, onStep })).rejects.toThrow('killed')
    const [made, ...rest] = await service.keyFile()
    expect(rest).toHaveLength(1)
    expect((await rotateMasterKey(service.place)).to).toBe(made?.id)
  })
})

describe('a rotation among others', () => {
  test('waits for a write that has begun to seal, and includes it', async () => {
    await using service = await openRotationFixture()
    const running = await service.process()
    let rotated: Promise<unknown> = Promise.resolve()
    const id = await transact(service.place.db, async (tx) => {
      const [stored = ''] = await service.store({ ...running, db: tx }, 1)
      rotated = rotateMasterKey(service.place)
      while ((await service.waiting()) === 0);
      return stored
    })
    await rotated
    expect((await service.rows()).map(({ master_key_id }) => master_key_id)).toEqual([await service.activeKey()])
    expect(await service.open(running, [id])).toEqual([id])
  })

  test('never stores a secret under a retired key and never fails a read, under concurrency', async () => {
    await using service = await openRotationFixture()
    const processes = [await service.process(), await service.process()]
    const ids = await service.store(await service.process(), 4)
    let isDone = false
    const work = processes.flatMap((process) => [
      async () => {
        while (!isDone) ids.push(...(await service.store(process, 1)))
      },
      async () => {
        while (!isDone) await service.replace(process, ids[0] ?? '')
      },
      async () => {
        while (!isDone) expect(await service.open(process, ids.slice(0, 4))).toEqual(ids.slice(0, 4))
      },
    ])
    const load = work.map((each) => each())
    const retired = []
    for (let round = 0; round < 8; round++) {
      await rotateMasterKey(service.place)
      retired.push(...(await service.underRetiredKeys()))
    }
    isDone = true
    await Promise.all(load)

    expect(retired).toEqual([])
    const { to, broken } = await rotateMasterKey(service.place)
    expect(broken).toEqual([])
    expect((await service.keyFile()).map(({ id }) => id)).toEqual([to])
    for (const process of processes) expect(await service.open(process, ids)).toEqual(ids)
  })

  test('may end between reading a row and reading the key file', async () => {
    await using service = await openRotationFixture()
    const running = await service.process()
    const ids = await service.store(running, 1)
    await rotateMasterKey(service.place)
    const { keyring } = running
    if (!keyring) throw new Error('Storage is on here.')
    let opens = 0
    const slow: typeof keyring = {
      ...keyring,
      async open(place, sealed) {
        if (opens++ === 0) await rotateMasterKey(service.place)
        return keyring.open(place, sealed)
      },
    }
    expect(await service.open({ ...running, keyring: slow }, ids)).toEqual(ids)
    expect(opens).toBe(2)
  })

  test('runs after the others, and the last key wins', async () => {
    await using service = await openRotationFixture()
    const running = await service.process()
    const ids = await service.store(running, 2)
    await Promise.all([1, 2, 3, 4].map(() => rotateMasterKey(service.place)))
    expect((await service.keyFile()).map(({ id }) => id)).toEqual([await service.activeKey()])
    expect(await service.open(running, ids)).toEqual(ids)
  })
})

test('reports a damaged secret and keeps its old key until the secret is replaced', async () => {
  await using service = await openRotationFixture()
  const running = await service.process()
  const ids = await service.store(running, 2)
  const [damaged = '', sound = ''] = ids
  await service.place.db.updateTable('credentials').set({ version: 9 }).where('id', '=', damaged).execute()

  const { from, to, broken, rewrapped } = await rotateMasterKey(service.place)

  expect({ broken, rewrapped }).toEqual({ broken: [damaged], rewrapped: 1 })
  expect((await service.keyFile()).map(({ id }) => id)).toEqual([to, from])
  await expect(openSecret(running, service.workspaceId, damaged)).rejects.toThrow(SealBroken)

  await service.replace(running, damaged)
  const last = await rotateMasterKey(service.place)
  expect((await service.keyFile()).map(({ id }) => id)).toEqual([last.to])
  expect(await service.open(running, [damaged, sound])).toEqual([damaged, sound])
})

describe('with ASSAY_SECRET_KEY', () => {
  const [old, next] = [randomBytes(32).toString('hex'), randomBytes(32).toString('base64')]

  test('moves the secrets to its first key, after which the old key is not needed', async () => {
    await using service = await openRotationFixture(old)
    const ids = await service.store(await service.process(old), 2)
    const both = await service.process(`${next},${old}`)
    ids.push(...(await service.store(both, 1)))

    const rotation = await rotateMasterKey({ ...service.place, secretKey: `${next},${old}` })

    expect(rotation).toMatchObject({ rewrapped: 3, broken: [] })
    for (const process of [both, await service.process(next)]) expect(await service.open(process, ids)).toEqual(ids)
    await expect(service.process(old)).rejects.toThrow('which ASSAY_SECRET_KEY does not contain')
    expect(await readdir(service.place.dataFolder)).toEqual([])
  })

  test('a process that has only the old key neither opens nor seals after the rotation', async () => {
    await using service = await openRotationFixture(old)
    const behind = await service.process(old)
    const [id = ''] = await service.store(behind, 1)
    await rotateMasterKey({ ...service.place, secretKey: `${next},${old}` })
    await expect(openSecret(behind, service.workspaceId, id)).rejects.toThrow('does not hold the master key in use')
    await expect(service.store(behind, 1)).rejects.toThrow('does not hold the master key in use')
    expect(await service.rows()).toHaveLength(1)
  })

  test('the first key being the active one already, nothing changes', async () => {
    await using service = await openRotationFixture(old)
    await service.store(await service.process(old), 1)
    const before = await service.rows()
    const rotation = await rotateMasterKey({ ...service.place, secretKey: old })
    expect(rotation).toMatchObject({ from: rotation.to, rewrapped: 0, broken: [] })
    expect(await service.rows()).toEqual(before)
  })

  test('without the active key it refuses', async () => {
    await using service = await openRotationFixture(old)
    const rotation = rotateMasterKey({ ...service.place, secretKey: next })
    await expect(rotation).rejects.toThrow('which ASSAY_SECRET_KEY does not contain')
  })
})

test('refuses to rotate a database without a master key', async () => {
  await using database = await testDatabase()
  const dataFolder = join(tmpdir(), `assay-none-${randomBytes(8).toString('hex')}`)
  await expect(rotateMasterKey({ db: database.db, dataFolder })).rejects.toThrow('no active master key')
})
