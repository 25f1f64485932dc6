import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { lock, transact } from '../platform/db/db.ts'
import { parseKeys, readKeyFile } from './key-file.ts'
import { openKeyring } from './master-key.ts'
import { toMasterKey } from './seal.ts'

const bytes = randomBytes(32)
const hex = bytes.toString('hex')

let started: Awaited<ReturnType<typeof startedOnce>>
beforeAll(async () => {
  started = await startedOnce()
})
afterAll(() => started[Symbol.asyncDispose]())

describe('ASSAY_SECRET_KEY', () => {
  test.each([
    ['hex', hex],
    ['upper case hex', hex.toUpperCase()],
    ['base64', bytes.toString('base64')],
    ['base64 without padding', bytes.toString('base64').replace('=', '')],
    ['base64url', bytes.toString('base64url')],
    ['with spaces around', ` ${hex}\n`],
  ])('can be %s', (_, text) => {
    expect(parseKeys([text], 'X')).toEqual([toMasterKey(bytes)])
  })

  test.each([
    ['empty', ''],
    ['too short', hex.slice(2)],
    ['too long', `${hex}00`],
    ['no hex digits', 'g'.repeat(64)],
    ['16 bytes', randomBytes(16).toString('base64')],
    ['not random', '00'.repeat(32)],
    ['a second key that is none', `${hex},changeme`],
    ['a key missing after the comma', `${hex},`],
  ])('stops the start when it is wrong: %s', async (_, secretKey) => {
    const start = started.start({ secretKey })
    await expect(start).rejects.toThrow(/^Key [12] in ASSAY_SECRET_KEY is not .*openssl rand -hex 32$/)
    await expect(start).rejects.not.toThrow(hex)
  })

  test('its first key becomes the master key of an empty database, and no file is written', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const other = randomBytes(32).toString('hex')
    await openKeyring({ db: database.db, dataFolder: folder.path, secretKey: `${hex},${other}` })
    expect(await masterKeys(database)).toEqual([{ id: toMasterKey(bytes).id, active: true }])
    expect(await readdir(folder.path)).toEqual([])
  })

  test('a process that holds the active key among others starts; one without it refuses', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const start = (secretKey: string) => openKeyring({ db: database.db, dataFolder: folder.path, secretKey })
    const other = randomBytes(32).toString('hex')
    await start(hex)
    await start(`${other},${hex}`)
    await expect(start(other)).rejects.toThrow(
      `sealed with master key ${toMasterKey(bytes).id}, which ASSAY_SECRET_KEY does not contain`,
    )
    expect(await masterKeys(database)).toHaveLength(1)
  })
})

describe('the key file', () => {
  test('is written by the first start, for us alone, and is found by the next', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const inside = { db: database.db, dataFolder: join(folder.path, 'made', 'here') }
    await openKeyring(inside)
    const path = join(inside.dataFolder, 'secret.key')
    const text = await readFile(path, 'utf8')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await masterKeys(database)).toEqual([{ id: (await readKeyFile(path))?.[0]?.id, active: true }])

    await openKeyring(inside)
    expect(await readFile(path, 'utf8')).toBe(text)
    expect(await masterKeys(database)).toHaveLength(1)
    expect(await readdir(inside.dataFolder)).toEqual(['secret.key'])
  })

  test('that is left from a start which died before its commit is used, not replaced', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    await database.pool.query(`alter table master_keys add constraint broken check (id = '')`)
    await expect(openKeyring({ db: database.db, dataFolder: folder.path })).rejects.toThrow(/broken/)
    const left = await readFile(folder.keyFile, 'utf8')

    await database.pool.query('alter table master_keys drop constraint broken')
    await openKeyring({ db: database.db, dataFolder: folder.path })
    expect(await readFile(folder.keyFile, 'utf8')).toBe(left)
  })

  test.each(['640', '604', '620', '602', '644', '777'])('that others may touch (%s) stops the start', async (mode) => {
    await using folder = await started.copy()
    await chmod(folder.keyFile, Number.parseInt(mode, 8))
    await expect(started.start({ dataFolder: folder.path })).rejects.toThrow(`chmod 600 ${folder.keyFile}`)
  })

  test.skipIf(process.geteuid?.() !== 0)('that belongs to someone else stops the start', async () => {
    await using folder = await started.copy()
    await chown(folder.keyFile, 65_534, 65_534)
    const start = started.start({ dataFolder: folder.path })
    await expect(start).rejects.toThrow('belongs to user 65534 but Assay runs as user 0')
  })

  test.each([
    ['missing', undefined, /does not exist\. Restore that key file/],
    ['another one', bytes.toString('base64'), /contains another key/],
    ['empty', '', /secret\.key contains no key/],
    ['no key', 'hello\n', /Key 1 in .*secret\.key is not 32 bytes/],
  ])('that is %s stops the start, and no new key is made', async (_, text, sentence) => {
    await using folder = await dataFolder()
    if (text !== undefined) await writeFile(folder.keyFile, text, { mode: 0o600 })
    await expect(started.start({ dataFolder: folder.path })).rejects.toThrow(sentence)
    expect(await readFile(folder.keyFile, 'utf8').catch(() => undefined)).toBe(text)
    expect(await masterKeys(started.database)).toHaveLength(1)
  })

  test('that is a folder stops the start', async () => {
    await using folder = await dataFolder()
    await mkdir(folder.keyFile, 0o700)
    await expect(started.start({ dataFolder: folder.path })).rejects.toThrow('is not a file')
  })

  test.each([
    ['a check value that was changed', `update master_keys set check_value = '\\x00'`, /check value .* was changed/],
    ['no active key', 'update master_keys set active = false', /no active master key/],
  ])('a database with %s stops the start', async (_, damage, sentence) => {
    await using damaged = await startedOnce()
    await damaged.database.pool.query(damage)
    await expect(damaged.start()).rejects.toThrow(sentence)
  })
})

describe('concurrent first starts', () => {
  test('many in one process agree on one key', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const starts = Array.from({ length: 8 }, () => openKeyring({ db: database.db, dataFolder: folder.path }))
    await Promise.all(starts)
    expect(await masterKeys(database)).toEqual([{ id: (await readKeyFile(folder.keyFile))?.[0]?.id, active: true }])
    expect(await readKeyFile(folder.keyFile)).toHaveLength(1)
  })

  test('several processes agree on one key', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const script = `import { connect } from ${JSON.stringify(new URL('../platform/db/db.ts', import.meta.url).href)}
      import { openKeyring } from ${JSON.stringify(new URL('master-key.ts', import.meta.url).href)}
      const database = connect(${JSON.stringify(database.url)}, { max: 1, onError() {} })
      await openKeyring({ db: database.db, dataFolder: ${JSON.stringify(folder.path)} })
      await database.close()`
    const run = () => promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script])
    await Promise.all([run(), run(), run(), run()])
    expect(await masterKeys(database)).toEqual([{ id: (await readKeyFile(folder.keyFile))?.[0]?.id, active: true }])
  })

  test('of machines with a data folder each: one makes the key, the others refuse and make none', async () => {
    await using database = await testDatabase()
    await using folder = await dataFolder()
    const folders = ['a', 'b', 'c', 'd'].map((name) => join(folder.path, name))
    const starts = await transact(database.db, async (tx) => {
      await lock(tx, 'master key')
      const settled = Promise.allSettled(folders.map((path) => openKeyring({ db: database.db, dataFolder: path })))
      while ((await waiting(database)) < folders.length);
      return { settled }
    })
    const refusals = (await starts.settled).flatMap((start) =>
      start.status === 'rejected' ? [String(start.reason)] : [],
    )
    expect(refusals).toEqual(Array(3).fill(expect.stringMatching(/secret\.key does not exist\. Restore that key file/)))
    expect(await masterKeys(database)).toHaveLength(1)
    expect(await readdir(folder.path)).toHaveLength(1)
  })

  test('two databases that share a data folder share its key', async () => {
    await using one = await testDatabase()
    await using two = await testDatabase()
    await using folder = await dataFolder()
    await Promise.all([one, two].map(({ db }) => openKeyring({ db, dataFolder: folder.path })))
    expect(await masterKeys(one)).toEqual(await masterKeys(two))
  })
})

/** A service that has started before: its database has a master key, and its folder the file. */
async function startedOnce() {
  const database = await testDatabase()
  const folder = await dataFolder()
  const start = (place: { dataFolder?: string; secretKey?: string } = {}) =>
    openKeyring({ db: database.db, dataFolder: folder.path, ...place })
  await start()
  return {
    database,
    start,
    /** The same key in a folder of its own. */
    async copy() {
      const other = await dataFolder()
      await copyFile(folder.keyFile, other.keyFile)
      return other
    },
    async [Symbol.asyncDispose]() {
      await folder[Symbol.asyncDispose]()
      await database[Symbol.asyncDispose]()
    },
  }
}

async function dataFolder() {
  const path = await mkdtemp(join(tmpdir(), 'assay-keys-'))
  return {
    path,
    keyFile: join(path, 'secret.key'),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}

/** How many wait for a lock that another holds. */
const waiting = async (database: TestDatabase): Promise<number> =>
  (await database.pool.query(`select 1 from pg_locks where locktype = 'advisory' and not granted`)).rowCount ?? 0

const masterKeys = async (database: TestDatabase): Promise<{ id: string; active: boolean }[]> =>
  (await database.pool.query('select id, active from master_keys order by created_at')).rows
