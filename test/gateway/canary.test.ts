import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, expect, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { createCredential } from '../../src/credentials/schema.ts'
import { hashSecret } from '../../src/gateway/grants.ts'
import { install } from '../../src/harnesses/bundles/install.ts'
import { claudeCode } from '../../src/harnesses/claude-code.ts'
import { call } from '../../src/platform/http/client.ts'
import { startPostgres } from '../../src/platform/postgres/postgres.ts'
import { toDatabaseUrl } from '../../src/store.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { CHAOS, writeDataset } from '../chaos/dataset.ts'
import { patientUser } from '../chaos/patient.ts'
import { bundlesFolder } from '../support/harnesses/scripted-gateway.ts'
import { hasPart } from '../support/parts.ts'
import { startService } from '../support/service.ts'

vi.setConfig({ testTimeout: 600_000 })

const CANARY = `sk-canary-${randomBytes(16).toString('hex')}`
const MODEL = 'anthropic/claude-sonnet-5'
const MARK = 'what-a-program-sees'
const folder = mkdtempSync(join(tmpdir(), 'assay-canary-'))
const data = join(folder, 'data')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Everything that a program can read about itself and other processes. */
const LOOK = `echo ${MARK}; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; grep -rhoE '[0-9A-Za-z]{43}' /assay /tmp 2>/dev/null | head -50; true`
const SCRIPT = {
  keys: [CANARY],
  tasks: [{ match: '', turns: [{ say: 'I look around.', run: LOOK, trouble: { pauseMs: 20 } }, { say: 'Done.' }] }],
}

test('a provider’s key never leaks unsealed to files, processes, logs or rows, nor the tunnel secret to a sandbox', async () => {
  await using provider = await startProvider(SCRIPT)
  const harnesses = ['mini', ...(await realPrograms())]
  writeDataset(join(folder, 'registry'), 1)
  const key = newKey()
  const service = await startService('serve', ['--data', data, '--port', '0'], {
    ASSAY_LOG: 'debug',
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
    ASSAY_SANDBOXES: 'local',
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_GATEWAY_UPSTREAM_ANTHROPIC: provider.url,
  })
  const logged: string[] = []
  for (const stream of [service.process.stdout, service.process.stderr]) {
    stream?.on('data', (chunk: Buffer) => logged.push(chunk.toString()))
  }
  const at = { url: service.url, key }
  const id = await compare(at, harnesses)
  const seen = await watchUntilDone(at, id)
  const trials = await patientUser(at).trials(id)
  await service.kill('SIGTERM')

  expect(trials.map(({ state }) => state)).toEqual(harnesses.map(() => 'failed'))
  expect(provider.calls().length).toBeGreaterThanOrEqual(2 * harnesses.length)
  expect(provider.calls().every(({ status }) => status === 200)).toBe(true)
  if (harnesses.length > 1) expect(seen.processes).toBeGreaterThan(0)
  expect(seen.holding).toEqual([])
  expect(logged.join('')).not.toContain(CANARY)

  const files = filesIn(data)
  expect(files.filter(({ bytes }) => bytes.includes(CANARY)).map(({ path }) => path)).toEqual([])
  const { tables, grants } = await readDatabase()
  expect(tables.credentials).toContain('Team key')
  for (const [name, text] of Object.entries(tables)) expect([name, text.includes(CANARY)]).toEqual([name, false])

  // A program may see a grant's token, never its tunnel secret.
  const said = files.filter(({ bytes }) => bytes.includes(MARK))
  expect(said.length).toBeGreaterThanOrEqual(harnesses.length)
  const words = new Set(files.flatMap(({ bytes }) => secretsIn(bytes.toString('latin1'))))
  const hashes = new Set([...words, ...seen.words].map((word) => hashSecret(word).toString('hex')))
  expect(grants).toHaveLength(harnesses.length)
  expect(grants.filter(({ tunnelSecret }) => hashes.has(tunnelSecret))).toEqual([])
  expect(grants.filter(({ token }) => hashes.has(token))).toHaveLength(harnesses.length - 1)
})

/** Harnesses that can be installed here. */
async function realPrograms(): Promise<string[]> {
  if (!hasPart('harnesses') || !claudeCode.bundle) return []
  const place = await bundlesFolder()
  const signal = AbortSignal.timeout(300_000)
  const isThere = await install(claudeCode.bundle, { folder: place, signal, onProgress: () => {} }).then(
    () => true,
    () => false,
  )
  if (!isThere) return []
  mkdirSync(data, { recursive: true })
  symlinkSync(place, join(data, 'harnesses'))
  return [claudeCode.id]
}

type ServiceAddress = { url: string; key: string }

async function compare(at: ServiceAddress, harnesses: string[]): Promise<string> {
  await patientUser(at).addBenchmark()
  const secret = { apiKey: CANARY }
  const body = { kind: 'model' as const, provider: 'anthropic', name: 'Team key', secret }
  const { body: credential } = await call(at, createCredential, { params: CHAOS, body })
  const id = randomUUID()
  const sandboxCredentialId = await vi.waitUntil(
    async () => {
      const { sandboxes } = (await call(at, inBenchmark.catalog, { params: CHAOS })).body
      return sandboxes.find((sandbox) => sandbox.id === 'local')?.credentials[0]?.id
    },
    { timeout: 120_000 },
  )
  const models = [{ catalogId: MODEL, credentialId: credential.id, harnesses, reasoningLevel: 'high' }]
  await call(at, inBenchmark.create, {
    params: CHAOS,
    body: { id, models, sandbox: 'local', sandboxCredentialId },
  })
  return id
}

const ENDED = ['completed', 'failed', 'canceled', 'paused']

/** Polls every process of this machine. */
async function watchUntilDone(at: ServiceAddress, id: string) {
  const holding = new Set<string>()
  const words = new Set<string>()
  let processes = 0
  const look = () => {
    const all = processTexts()
    const inSandboxes = all.filter(({ text }) => text.includes('127.0.0.1:31281'))
    processes += inSandboxes.length
    for (const { path } of all.filter(({ text }) => text.includes(CANARY))) holding.add(path)
    for (const word of inSandboxes.flatMap(({ text }) => secretsIn(text))) words.add(word)
  }
  const isDone = async () => {
    look()
    return ENDED.includes((await patientUser(at).read(id)).state)
  }
  await vi.waitUntil(isDone, { timeout: 300_000, interval: 20 })
  return { holding: [...holding], words, processes }
}

/** Matches the form of a grant's secrets. */
const secretsIn = (text: string): string[] => text.match(/\b[0-9A-Za-z]{43}\b/g) ?? []

function processTexts(): { path: string; text: string }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.flatMap((pid) =>
    ['environ', 'cmdline'].flatMap((name) => {
      const path = `/proc/${pid}/${name}`
      try {
        return [{ path, text: readFileSync(path, 'latin1') }]
      } catch {
        return [] // it has ended
      }
    }),
  )
}

/** Skips links, whose targets existed before. */
function filesIn(place: string): { path: string; bytes: Buffer }[] {
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.startsWith(join(data, 'harnesses')))
    .map((path) => ({ path, bytes: readFileSync(path) }))
}

/** Returns every row of every table as text, and the hashes of the grants. */
async function readDatabase() {
  const postgres = await startPostgres({ folder: join(data, 'postgres') })
  const client = new pg.Client({ connectionString: toDatabaseUrl(postgres.connection) })
  await client.connect()
  try {
    const { rows: names } = await client.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
    )
    const tables: Record<string, string> = {}
    for (const { name } of names) {
      const { rows } = await client.query<{ row: string }>(`select each::text as row from ${name} as each`)
      tables[name.replace('public.', '')] = rows.map(({ row }) => row).join('\n')
    }
    const { rows: grants } = await client.query<{ tunnelSecret: string; token: string }>(
      `select encode(listener_hash, 'hex') as tunnelSecret, encode(token_hash, 'hex') as token from gateway_grants`,
    )
    return { tables, grants }
  } finally {
    await client.end()
    await postgres.stop()
  }
}
