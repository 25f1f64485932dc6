import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createConfiguration } from '../../src/configurations/schema.ts'
import { createCredential } from '../../src/credentials/schema.ts'
import { createKey, listKeys } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { assay, BIN, bareEnvironment } from '../support/assay-command.ts'
import { emptyDatabase } from '../support/database.ts'
import { openReleaseLab } from '../support/releases.ts'
import { startService } from '../support/service.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

const SECRET_KEY = randomBytes(32).toString('hex')
/** Contains what PostgreSQL's text format has to escape. */
const RULES = 'Greet politely: \u00e9 \\N \\. \t.\n'
const folder = mkdtempSync(join(tmpdir(), 'assay-backup-'))
const backup = join(folder, 'monday')
let app: TestApp
let publicPaths: string[]
let source: Record<string, string>

beforeAll(async () => {
  app = await testApp({ ASSAY_SECRET_KEY: SECRET_KEY })
  const { config } = app.tools
  source = {
    DATABASE_URL: app.database.url,
    ASSAY_DATA: config.dataFolder,
    ASSAY_BLOBS: config.blobs,
    ASSAY_SECRET_KEY: SECRET_KEY,
  }
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' }, { id: 'acme/b|mini|low', cells: 'pppppf' })
  await lab.publishAll({ publishTasks: true })
  const secret = { apiKey: 'sk-0123456789abcdef' }
  await app.call(createCredential, { body: { kind: 'model', provider: 'anthropic', name: 'Team key', secret } })
  const files = [{ path: 'AGENTS.md', text: RULES }]
  expect((await app.call(createConfiguration, { body: { name: 'rules', files } })).status).toBe(201)
  const { owner, name } = lab.place
  const results = `/api/public/results/${owner}/${name}`
  publicPaths = [results, `${results}/history`, `${results}/results.csv`, `${results}/tasks`, '/api/public/results']
  await backUpUnderLoad()
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const acknowledged: string[] = []
/** Keys that are created during the backup. With the others they fit on one page of the list. */
const KEYS_MAX = 150

/** Creates keys all the time while the backup is written. Those before it must be in it. */
async function backUpUnderLoad(): Promise<void> {
  const write = async (name: string) =>
    (await app.call(createKey, { body: { name, permission: 'read' } })).status === 201
  for (let at = 0; at < 20; at++) if (await write(`before-${at}`)) acknowledged.push(`before-${at}`)
  let isDone = false
  const load = (async () => {
    for (let at = 0; !isDone && at < KEYS_MAX; at++) await write(`during-${at}`)
  })()
  const { code, out, err } = await assay(['backup', backup, '--json'], { env: source })
  isDone = true
  await load
  expect(code, err).toBe(0)
  expect(JSON.parse(out)).toMatchObject({ folder: backup })
  expect(readdirSync(folder).filter((name) => name.startsWith('monday'))).toEqual(['monday'])
}

const readPublic = async (url: string): Promise<string[]> =>
  Promise.all(
    publicPaths.map(async (path) => {
      const response = await fetch(url + path)
      expect(response.status, path).toBe(200)
      return (await response.text()).replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, '')
    }),
  )

/** Starts the service on the settings and compares it with the one that was backed up. */
async function expectSameService(settings: Record<string, string>): Promise<void> {
  const key = app.adminKey
  const service = await startService('api', ['--port', '0'], { ASSAY_SECRET_KEY: SECRET_KEY, ...settings })
  try {
    expect(await readPublic(service.url)).toEqual(await readPublic(app.url))
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${service.url}/api/orgs/local/keys?limit=200`, { headers })
    const names = listKeys.answers[200].parse(await response.json()).keys.map(({ name }) => name)
    expect(acknowledged.filter((name) => !names.includes(name))).toEqual([])
    const rules = await fetch(`${service.url}/api/orgs/local/configurations/rules`, { headers })
    expect(await rules.json()).toMatchObject({ files: [{ path: 'AGENTS.md', text: RULES }] })
    const created = await fetch(`${service.url}/api/orgs/local/keys`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'after', permission: 'read' }),
    })
    expect(created.status).toBe(201)
  } finally {
    await service.kill('SIGTERM')
  }
}

test('a backup of a running service becomes the same service on an embedded database, then on a server, and back', async () => {
  await using server = await emptyDatabase()
  const embedded = { ASSAY_DATA: join(folder, 'embedded'), ASSAY_SECRET_KEY: SECRET_KEY }
  const restored = await assay(['restore', backup], { env: embedded })
  expect(restored, restored.err).toMatchObject({ code: 0 })
  expect(restored.out).toMatch(/^Restored \d+ rows in \d+ tables and \d+ blobs/)
  await expectSameService(embedded)

  const moved = await assay(['move-database', server.url], { env: embedded })
  expect(moved, moved.err).toMatchObject({ code: 0 })
  await expectSameService({ ...embedded, DATABASE_URL: server.url })

  rmSync(join(folder, 'embedded/postgres'), { recursive: true })
  const back = await assay(['move-database', 'embedded'], { env: { ...embedded, DATABASE_URL: server.url } })
  expect(back, back.err).toMatchObject({ code: 0 })
  await expectSameService(embedded)
})

test('a restore into a database with rows changes nothing', async () => {
  const before = await readPublic(app.url)
  const { code, err } = await assay(['restore', backup], { env: source })
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('is not empty') })
  expect(err).toContain('Nothing was changed.')
  expect(await readPublic(app.url)).toEqual(before)
})

test('move-database refuses while a service uses the database', async () => {
  const target = { ASSAY_DATA: join(folder, 'busy'), ASSAY_SECRET_KEY: SECRET_KEY, DATABASE_URL: app.database.url }
  mkdirSync(target.ASSAY_DATA)
  await app.database.pool.query('select 1')
  const { code, err } = await assay(['move-database', 'embedded'], { env: target })
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('The service uses the database.') })
})

/** Copies the backup, damages the copy, and restores it into an empty folder. */
async function restoreDamaged(name: string, damage: (copy: string) => void, settings: Record<string, string> = {}) {
  const copy = join(folder, `copy of ${name}`)
  cpSync(backup, copy, { recursive: true })
  damage(copy)
  return assay(['restore', copy], { env: { ...DAMAGED, ...settings } })
}

/** The folder into which damaged backups are restored, and in the end a good one. */
const DAMAGED = { ASSAY_DATA: join(folder, 'damaged'), ASSAY_SECRET_KEY: SECRET_KEY }

const trialsFile = (copy: string) => join(copy, 'tables/trials.gz')

test.for<[string, (copy: string) => void, string]>([
  ['truncated', (copy) => truncateSync(trialsFile(copy), 20), 'has 20 of'],
  ['changed', (copy) => changeByte(trialsFile(copy)), 'was changed'],
  ['missing', (copy) => rmSync(trialsFile(copy)), 'is missing'],
  ['unfinished', (copy) => rmSync(join(copy, 'backup.json')), 'is not a complete backup'],
  ['garbled', (copy) => writeFileSync(join(copy, 'backup.json'), '{"format":'), 'is damaged'],
  [
    'newer',
    (copy) => editManifest(copy, (text) => text.replace('"migrations": [', '"migrations": ["9999_new",')),
    'newer Assay',
  ],
  ['without its blobs', (copy) => rmSync(join(copy, 'blobs'), { recursive: true }), 'not found'],
])('a restore refuses a backup that is %s', async ([name, damage, reason]) => {
  const { code, err } = await restoreDamaged(name, damage)
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining(reason) })
})

function changeByte(path: string): void {
  const bytes = readFileSync(path)
  const last = bytes.length - 1
  bytes[last] = (bytes[last] ?? 0) ^ 1
  writeFileSync(path, bytes)
}

const editManifest = (copy: string, edit: (text: string) => string): void =>
  writeFileSync(join(copy, 'backup.json'), edit(readFileSync(join(copy, 'backup.json'), 'utf8')))

test.for([
  ['another', { ASSAY_SECRET_KEY: randomBytes(32).toString('hex') }, 'ASSAY_SECRET_KEY does not contain'],
  ['no', { ASSAY_SECRET_KEY: '' }, 'secret.key is not'],
] as const)(
  'with %s master key nothing is restored, and the message says which key is needed',
  async ([name, settings, reason]) => {
    const { code, err } = await restoreDamaged(`key-${name}`, () => {}, settings)
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining(reason) })
  },
)

test('a valid backup can be restored after damaged ones were refused', async () => {
  const { code, err } = await assay(['restore', backup], { env: DAMAGED })
  expect(code, err).toBe(0)
})

test('a backup contains neither the master key nor a secret', () => {
  const found = spawnSync('sh', ['-c', 'find "$0" -name "*.gz" -exec zcat {} + ; cat "$0/backup.json"', backup])
  const text = found.stdout.toString()
  expect(text).toContain('Team key')
  expect(text).not.toContain('sk-0123456789abcdef')
  expect(text).not.toContain(SECRET_KEY)
})

test('an existing folder is never written to', async () => {
  const { code, err } = await assay(['backup', backup], { env: source })
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('exists. Name a new folder') })
})

test.for(['SIGKILL', 'SIGTERM'] as const)('%s during a backup leaves no folder with its name', async (signal) => {
  const target = join(folder, `killed-${signal}`)
  const holder = await app.database.pool.connect()
  await holder.query('begin; lock table trials in access exclusive mode')
  const child = spawn(process.execPath, [BIN, 'backup', target], {
    env: { ...bareEnvironment, ...source },
    stdio: 'ignore',
  })
  const exited = once(child, 'exit')
  await vi.waitUntil(() => readdirSync(folder).some((name) => name.startsWith(`killed-${signal}.unfinished-`)), {
    timeout: 60_000,
  })
  child.kill(signal)
  await exited
  await holder.query('rollback')
  holder.release()
  expect(readdirSync(folder)).not.toContain(`killed-${signal}`)
})

const disk = join(folder, 'disk')
mkdirSync(disk)
const canMount = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=20k', 'tmpfs', disk]).status === 0
afterAll(() => void (canMount && spawnSync('umount', [disk])))

test.skipIf(!canMount)('a full disk during a backup is reported, and its space is freed', async () => {
  const { code, err } = await assay(['backup', join(disk, 'monday')], { env: source })
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('the disk is full') })
  expect(readdirSync(disk)).toEqual([])
})
