import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { temporaryFolder } from '../../test/support/harbor/folders.ts'
import { watchLoop } from '../../test/support/loop-delay.ts'
import { type PackageRegistryServer, startPackageRegistry } from '../../test/support/package-registry.ts'
import { smallTask } from '../../test/support/package-registry-rows.ts'
import { toBenchmarkDeps } from '../app.ts'
import { sweepContents } from '../contents/contents.ts'
import { createCredential } from '../credentials/schema.ts'
import { RegistryUnavailable } from '../harbor/registries/registry.ts'
import { readEvents } from '../platform/http/client.ts'
import { findResolvedDataset, freezeDataset } from './benchmarks.ts'
import {
  addBenchmark,
  listBenchmarks,
  listBenchmarkTaskFiles,
  readBenchmark,
  readBenchmarkTaskFile,
  removeBenchmark,
} from './schema.ts'

let app: TestApp
let registry: PackageRegistryServer
beforeAll(async () => {
  registry = await startPackageRegistry()
  app = await testApp({
    ASSAY_REGISTRIES: 'samples,harbor',
    ASSAY_HARBOR_URL: registry.url,
    ASSAY_HARBOR_PUBLIC_KEY: registry.publicKey,
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await registry[Symbol.asyncDispose]()
})
beforeEach(() => {
  registry.requests.length = 0
})

const add = (reference: string, key?: string) => app.call(addBenchmark, { body: { reference }, key })
const at = (datasetOrg: string, dataset: string) => ({ params: { datasetOrg, dataset } })
const archives = () => registry.requests.filter((line) => line.includes('dist.tar.gz')).length

/** Everything on this server that an addition could leave. */
async function traces() {
  const { rows } = await app.database.pool.query(
    `select (select count(*) from benchmarks) as benchmarks, (select count(*) from benchmark_tasks) as tasks,
     (select count(*) from task_contents) as contents`,
  )
  return { ...rows[0], blobs: filesIn(app.tools.config.blobs.slice('file:'.length)), drafts: filesIn(drafts()) }
}
const drafts = () => join(app.tools.config.dataFolder, 'drafts')
const filesIn = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => name)
        .sort()
    : []

async function publish(name: string, tasks: string[], extra: [string, string][] = []) {
  const versions = []
  for (const task of tasks) versions.push(await registry.rows.publishTask({ name: task }))
  for (const [task, line] of extra) {
    const files = smallTask(task).map(([path, content]): [string, string] => [
      path,
      path === 'environment/Dockerfile' ? `FROM debian:bookworm-slim\n${line}\n` : String(content),
    ])
    versions.push(await registry.rows.publishTask({ name: task, files }))
  }
  return registry.rows.publishDataset({ name, tasks: versions })
}

test('a bundled dataset is added, read, listed and removed without network access', async () => {
  const added = await add('assay/quick')
  expect(added).toMatchObject({
    status: 201,
    body: {
      reference: 'assay/quick',
      datasetOrg: 'assay',
      dataset: 'quick',
      ref: 'latest',
      tasks: 5,
      check: { status: 'passed' },
    },
  })
  expect(registry.requests).toEqual([])
  expect((await app.call(listBenchmarks)).body.benchmarks[0]).toEqual(added.body)
  const read = await app.call(readBenchmark, at('assay', 'quick'))
  expect(read.body.taskList).toHaveLength(5)
  expect(read.body).toMatchObject(added.body)
  expect((await app.call(removeBenchmark, at('assay', 'quick'))).status).toBe(204)
  expect((await app.call(removeBenchmark, at('assay', 'quick'))).status).toBe(404)
  expect((await app.call(readBenchmark, at('assay', 'quick'))).status).toBe(404)
})

test('the files of a task are listed and downloaded as they were checked, to its workspace only', async () => {
  await add('assay/quick')
  const task = { ...at('assay', 'quick').params, taskOrg: 'assay', task: 'greet-in-bash' }
  const { body } = await app.call(listBenchmarkTaskFiles, { params: task })
  const paths = body.files.map(({ path }: { path: string }) => path)
  expect(paths).toContain('task.toml')
  expect(paths).toEqual(paths.toSorted())
  expect(body.total).toBe(paths.length)
  const file = (path: string) => app.call(readBenchmarkTaskFile, { params: { ...task, path } })
  const { text, headers } = await file('instruction.md')
  expect(text).toBe(readFileSync('samples/tasks/greet-in-bash/instruction.md', 'utf8'))
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': "attachment; filename*=UTF-8''instruction.md",
    'content-security-policy': 'sandbox',
    'x-content-type-options': 'nosniff',
  })
  for (const path of ['tests/none.sh', 'tests', '../task.toml', '/etc/passwd'])
    expect((await file(path)).status, path).toBe(404)
  expect((await app.call(listBenchmarkTaskFiles, { params: { ...task, task: 'none' } })).status).toBe(404)
  const other = await app.otherWorkspace('elsewhere')
  const there = { params: { ...task, org: other.login }, key: other.key }
  expect((await app.call(listBenchmarkTaskFiles, there)).status).toBe(404)
})

test('adding the same content again answers 200 and downloads nothing', async () => {
  await publish('lab/same', ['lab/one', 'lab/two'])
  const first = await add('lab/same')
  expect([first.status, archives()]).toEqual([201, 2])
  const again = await add('lab/same@latest')
  expect([again.status, archives()]).toEqual([200, 2])
  expect(again.body).toEqual(first.body)
})

test('new content replaces the benchmark; shared content is not downloaded again', async () => {
  await publish('lab/moving', ['lab/stays', 'lab/goes'])
  const first = await add('lab/moving')
  await publish('lab/moving', ['lab/stays', 'lab/comes'])
  registry.requests.length = 0
  const second = await add('lab/moving')
  expect([second.status, archives()]).toEqual([201, 1])
  expect(second.body.digest).not.toBe(first.body.digest)
  const { body } = await app.call(readBenchmark, at('lab', 'moving'))
  expect(body.taskList.map((task: { name: string }) => task.name)).toEqual(['lab/comes', 'lab/stays'])
  expect((await add('lab/moving@1')).body).toMatchObject({ ref: '1', digest: first.body.digest })
})

test('one unsafe task rejects the dataset and leaves no row, blob or folder', async () => {
  const before = await traces()
  await publish(
    'lab/bad',
    ['lab/fine'],
    [['lab/thief', 'COPY --from=tests /tests /tests\nRUN curl http://169.254.169.254/']],
  )
  const { status, body } = await add('lab/bad')
  expect({ status, code: body.code }).toEqual({ status: 422, code: 'benchmark_refused' })
  expect(body.findings.filter((finding: { severity: string }) => finding.severity === 'block')).not.toEqual([])
  expect(new Set(body.findings.map((finding: { task: string }) => finding.task))).toEqual(new Set(['lab/thief']))
  expect(await traces()).toEqual(before)
})

test('a rejected dataset leaves the earlier version unchanged', async () => {
  await publish('lab/kept', ['lab/good'])
  const first = await add('lab/kept')
  await publish('lab/kept', ['lab/good'], [['lab/evil', 'RUN curl http://169.254.169.254/latest/meta-data/']])
  expect((await add('lab/kept')).status).toBe(422)
  expect((await app.call(readBenchmark, at('lab', 'kept'))).body).toMatchObject(first.body)
})

test('content that does not match the digest of the registry is rejected', async () => {
  const version = await publish('lab/forged', ['lab/forged-task'])
  const path = version.tasks[0]?.archive_path ?? ''
  const other = await registry.rows.publishTask({ name: 'lab/another' })
  registry.rows.objects.set(path, registry.rows.objects.get(other.archive_path) ?? Buffer.alloc(0))
  const { status, body } = await add('lab/forged')
  expect({ status, findings: body.findings }).toMatchObject({
    status: 422,
    findings: [{ task: 'lab/forged-task', rule: 'digest_mismatch', severity: 'block' }],
  })
})

test('an unavailable dataset is 404, an unusable one 422', async () => {
  await registry.rows.publishTask({ name: 'lab/single' })
  await publish('lab/empty', [])
  registry.rows.publishDataset({ name: 'lab/private', tasks: [], isPrivate: true })
  const task = await registry.rows.publishTask({ name: 'lab/t' })
  registry.rows.publishDataset({ name: 'lab/yanked', tasks: [task], yankedReason: 'It leaked.' })
  const many = Array.from({ length: 501 }, (_, n) =>
    registry.rows.addTask(`lab/many-${n}`, `sha256:${n.toString(16).padStart(64, '0')}`),
  )
  registry.rows.publishDataset({ name: 'lab/many', tasks: many })
  const outcome = async (reference: string) => {
    const { status, body } = await add(reference)
    return `${status} ${body.code}`
  }
  expect(await outcome('lab/nothing')).toBe('404 dataset_not_found')
  expect(await outcome('lab/single')).toBe('404 dataset_not_found')
  expect(await outcome('lab/private')).toBe('404 dataset_not_found')
  expect(await outcome('lab/empty')).toBe('422 no_tasks')
  expect(await outcome('lab/many')).toBe('422 too_many_tasks')
  expect(await outcome('lab/yanked')).toBe('422 benchmark_refused')
  expect(await outcome('just-a-name')).toBe('422 invalid_request')
  expect(archives()).toBe(0)
})

test('a registry key opens private datasets to its workspace only, and a rejected key is reported', async () => {
  const task = await registry.rows.publishTask({ name: 'lab/secret-task', isPrivate: true })
  registry.rows.publishDataset({ name: 'lab/secret', tasks: [task], isPrivate: true })
  const other = await app.otherWorkspace('keyholder')
  const apiKey = registry.addKey(['lab'])
  await app.call(createCredential, {
    params: { org: other.login },
    key: other.key,
    body: { kind: 'registry', provider: 'harbor', name: 'ours', secret: { apiKey } },
  })
  const addThere = () =>
    app.call(addBenchmark, { params: { org: other.login }, key: other.key, body: { reference: 'lab/secret' } })
  expect((await addThere()).status).toBe(201)
  expect((await add('lab/secret')).status).toBe(404)
  registry.revokeKey(apiKey)
  registry.expireTokens()
  expect(await addThere()).toMatchObject({ status: 422, body: { code: 'registry_access_refused' } })
})

test('an interrupted registry is 503, and a retry continues the download', async () => {
  const names = Array.from({ length: 20 }, (_, n) => `lab/b${10 + n}`)
  const version = await publish('lab/broken', names)
  const path = version.tasks.at(-1)?.archive_path ?? ''
  registry.misbehave({ on: path, times: 1, status: 429, headers: { 'retry-after': '3600' } })
  expect(await add('lab/broken')).toMatchObject({
    status: 503,
    body: { code: 'registry_unavailable', retryable: true },
  })
  registry.requests.length = 0
  expect((await add('lab/broken')).status).toBe(201)
  expect(archives()).toBeLessThan(names.length / 2)
  expect(filesIn(drafts())).toEqual([])
})

test('adding the same dataset concurrently creates one benchmark', async () => {
  await publish('lab/twice', ['lab/x1', 'lab/x2', 'lab/x3', 'lab/x4'])
  const answers = await Promise.all([add('lab/twice'), add('lab/twice'), add('lab/twice')])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 201])
  expect(new Set(answers.map(({ body }) => body.addedAt)).size).toBe(1)
  expect(filesIn(drafts())).toEqual([])
})

test('progress is streamed and ends with the result, or with the problem', async () => {
  await publish('lab/watched', ['lab/w1', 'lab/w2', 'lab/w3'])
  const stream = async (reference: string) => {
    const response = await fetch(`${app.url}/api/orgs/local/benchmarks`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${app.adminKey}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify({ reference }),
    })
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    return response.body ? Array.fromAsync(readEvents(response.body)) : []
  }
  const events = await stream('lab/watched')
  expect(events.map(({ event }) => event).slice(0, 1)).toEqual(['progress'])
  expect(events.at(-1)?.event).toBe('result')
  expect(JSON.parse(events.at(-1)?.data ?? '')).toMatchObject({ dataset: 'watched', tasks: 3 })
  const refused = await stream('lab/nowhere')
  expect(refused.map(({ event }) => event)).toEqual(['problem'])
  expect(JSON.parse(refused[0]?.data ?? '')).toMatchObject({ status: 404, code: 'dataset_not_found' })
})

test('an Idempotency-Key replays the first response, streamed or not, and is free again after a failure', async () => {
  await publish('lab/keyed', ['lab/k1', 'lab/k2'])
  const send = (key: string, reference = 'lab/keyed') =>
    app.call(addBenchmark, { body: { reference }, headers: { 'idempotency-key': key } })
  registry.misbehave({ on: 'dist.tar.gz', times: 1, status: 429, headers: { 'retry-after': '3600' } })
  expect((await send('k-1')).status).toBe(503)
  const first = await send('k-1')
  expect(first.status).toBe(201)

  // The tag moves on. The same request is still answered by what it did; a new one is not.
  await publish('lab/keyed', ['lab/k1', 'lab/k2', 'lab/k3'])
  registry.requests.length = 0
  const again = await send('k-1')
  expect([again.status, again.text, again.headers.get('idempotent-replay')]).toEqual([201, first.text, 'true'])
  expect(registry.requests).toEqual([])
  const streamed = await fetch(`${app.url}/api/orgs/local/benchmarks`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${app.adminKey}`,
      'content-type': 'application/json',
      accept: 'text/event-stream',
      'idempotency-key': 'k-1',
    },
    body: JSON.stringify({ reference: 'lab/keyed' }),
  })
  const events = streamed.body ? await Array.fromAsync(readEvents(streamed.body)) : []
  expect(events.map(({ event, data }) => [event, JSON.parse(data).digest])).toEqual([['result', first.body.digest]])
  expect(await send('k-1', 'lab/other')).toMatchObject({ status: 409, body: { code: 'idempotency_key_reused' } })
  expect((await send('k-2')).body.tasks).toBe(3)
})

test('concurrent requests with one Idempotency-Key get the same response', async () => {
  await publish('lab/burst', ['lab/u1', 'lab/u2', 'lab/u3'])
  const send = () =>
    app.call(addBenchmark, { body: { reference: 'lab/burst' }, headers: { 'idempotency-key': 'burst' } })
  const answers = await Promise.all([send(), send(), send()])
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1)
  const { rows } = await app.database.pool.query(
    `select count(*)::int as n from audit_events where action = 'benchmark.added' and subject = 'lab/burst'`,
  )
  expect(rows[0].n).toBe(1)
})

test('freezing downloads exactly the content that was added, and accepts nothing else', async () => {
  const version = await publish('lab/frozen', ['lab/f1', 'lab/f2'])
  const { body } = await add('lab/frozen')
  await publish('lab/frozen', ['lab/f3'])
  registry.requests.length = 0
  const tools = toBenchmarkDeps(app.tools)
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)
  const place = { workspaceId: rows[0].id, datasetOrg: 'lab', dataset: 'frozen' }
  const found = await findResolvedDataset(tools.db, place)
  const freeze = () => freezeDataset(tools, place.workspaceId, found?.resolved, new AbortController().signal)
  const frozen = await freeze()
  expect(frozen).toMatchObject({ kind: 'frozen', digest: body.digest, tasks: [{ name: 'lab/f1' }, { name: 'lab/f2' }] })
  expect(archives()).toBe(2)

  const [first, second] = version.tasks.map((task) => task.archive_path)
  registry.rows.objects.set(first ?? '', registry.rows.objects.get(second ?? '') ?? Buffer.alloc(0))
  expect(await freeze()).toMatchObject({ kind: 'changed' })
  registry.misbehave({ on: 'dist.tar.gz', times: 1, status: 429, headers: { 'retry-after': '3600' } })
  await expect(freeze()).rejects.toThrow(RegistryUnavailable)
  expect(await findResolvedDataset(tools.db, { ...place, dataset: 'never-added' })).toBeUndefined()
})

test('task content is deleted one day after the last reference is gone, and not before', async () => {
  await publish('lab/gone', ['lab/only-here'])
  await add('lab/gone')
  const tools = { db: app.tools.database.db, blobs: app.tools.blobs }
  await app.call(removeBenchmark, at('lab', 'gone'))
  await sweepContents(tools)
  const { contents } = await traces()
  await app.database.pool.query(`update task_contents set used_at = now() - interval '2 days'`)
  expect(await sweepContents(tools)).toBeGreaterThan(0)
  const after = await traces()
  expect(after.contents).toBeLessThan(contents)
  expect(after.blobs).toHaveLength(after.contents)
  expect(await sweepContents(tools)).toBe(0)
})

test('registry errors contain no path or address of the server', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'secret-place')
  mkdirSync(join(path, 'lab/demo'), { recursive: true })
  writeFileSync(join(path, 'broken.json'), '{')
  const outcome = async (registries: string) => {
    await using own = await testApp({ ASSAY_REGISTRIES: registries })
    const { status, body, text } = await own.call(addBenchmark, { body: { reference: 'lab/demo@9' } })
    expect(text).not.toMatch(/secret-place|127\.0\.0\.1:9/)
    return `${status} ${body.detail}`
  }
  expect(await outcome(`dir:${path}`)).toBe('404 The local registry has lab/demo, but no version 9. It has latest.')
  expect(await outcome(`dir:${path}-gone`)).toMatch(/^503 The folder of a local registry /)
  expect(await outcome(join(path, 'broken.json'))).toMatch(/^503 /)
})

test('the safety check of a long script does not block the event loop', async () => {
  const script = `#!/bin/bash\n${'if [ a ]; then echo $(cat x) | tee y; fi\n'.repeat(20_000)}`
  const files = smallTask('lab/long-script').map(([path, content]): [string, string] => [
    path,
    path === 'tests/test.sh' ? script : String(content),
  ])
  const task = await registry.rows.publishTask({ name: 'lab/long-script', files })
  await registry.rows.publishDataset({ name: 'lab/long-scripts', tasks: [task] })
  const loop = watchLoop()
  expect(await add('lab/long-scripts')).toMatchObject({ status: 201 })
  expect(loop.percentile(1)).toBeLessThan(200)
})
