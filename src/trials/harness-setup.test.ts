import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { type BundleLock, nativeBundle, toFolderName } from '../harnesses/bundles/bundle.ts'
import { buildCustomHarness } from '../harnesses/custom-harness.ts'
import { type Harness, type HarnessRun, HarnessUnfit, toEnv } from '../harnesses/harness.ts'
import type { TrialModel } from './trial-request.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

const TARBALL = { path: 'program', name: 'made-up', version: '1', integrity: 'sha512-' }
const LOCK: BundleLock = { package: 'made-up', version: '1', tarballs: [TARBALL] }
const ACCESS: TrialModel['access'] = {
  ...{ model: 'm', provider: 'p', protocols: ['openai-chat'], protocol: 'openai-chat', level: 'none' },
  ...{ wireLevel: { nothing: true }, contextTokens: 1, outputTokens: 1, baseUrl: 'http://127.0.0.1:31281', token: 't' },
}

/** Creates an installed program from a script. */
function program(name: string, script: string, run: Partial<HarnessRun> = {}): { harness: Harness; folder: string } {
  const folder = join(runner.folder, `bundles-${name}`)
  const place = join(folder, toFolderName({ id: name, lock: LOCK }), 'program')
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'run'), script)
  chmodSync(join(place, 'run'), 0o555)
  const harness: Harness = {
    ...{ id: name, name, version: '1', protocols: ['openai-chat'], auxiliaryModels: [] },
    bundle: nativeBundle(name, LOCK, 'program/run'),
    protocolFor: () => 'openai-chat',
    plan: () => ({ command: ['/assay/bundle/program/run', 'work'], env: [], folders: [], input: '', ...run }),
  }
  return { harness, folder }
}

const model = (more: Partial<TrialModel> = {}): TrialModel => ({
  access: ACCESS,
  port: { port: 31_281, onConnection: (socket) => socket.end('hello') },
  ...more,
})

const ASKS = 'exec 3<>/dev/tcp/127.0.0.1/31281 && cat <&3'

test('the agent gets its bundle, its own HOME and its model; the verifier gets none of them', async () => {
  const script = `#!/bin/bash
[ "$1" = --version ] && exit 0
cd && [ "$PWD" = /assay/home ] && [ "$(cat config/a.json)" = '{}' ] && echo x > mine && ! touch /assay/bundle/x || exit 1
case $NO_PROXY in *127.0.0.1*) ;; *) exit 2 ;; esac
${ASKS} > /app/hello.txt
`
  const tests = `#!/bin/bash
ls /assay/home /assay/bundle 2>/dev/null | grep . && exit 1
(${ASKS}) 2>/dev/null && exit 1
[ "$(cat /app/hello.txt)" = hello ] && echo 1 > /logs/verifier/reward.txt
`
  const task = writeTask(join(runner.folder, 'whole'), { 'tests/test.sh': tests })
  const { harness, folder } = program('whole', script, { files: [{ path: 'config/a.json', text: '{}' }] })
  for (const mode of ['workspace', 'snapshot', 'shared-cold'] as const) {
    const record = await runner.run(task, harness, mode, { model: model(), bundles: { folder } })
    expect(record).toMatchObject({ state: 'passed', class: 'verified', harness: 'whole' })
  }
})

test('HOME belongs to the user of the agent', async () => {
  const script = '#!/bin/bash\n[ "$1" = --version ] || { cat ~/secret && echo x > ~/.config/y; } || exit 9\n'
  const files = [
    { path: 'secret', text: 'x' },
    { path: '.config/z', text: '' },
  ]
  const { harness, folder } = program('owner', script, { files })
  for (const user of ['"nobody"', '12345', '"root"']) {
    const toml = taskToml().replace('[agent]', `[agent]\nuser = ${user}`)
    const task = writeTask(join(runner.folder, `owner ${user.replaceAll('"', '')}`), { 'task.toml': toml })
    const record = await runner.run(task, harness, 'workspace', { model: model(), bundles: { folder } })
    expect(record.steps[0]?.agent).toMatchObject({ code: 0 })
  }
})

test('skills of the task are copied to the folder where the program looks for them', async () => {
  const { harness, folder } = program(
    'skilled',
    '#!/bin/bash\n[ "$1" = --version ] || cat ~/skills/greet/SKILL.md > /app/hello.txt\n',
    { files: [], skills: 'skills' },
  )
  const task = writeTask(join(runner.folder, 'skilled'), {
    'task.toml': taskToml({ environment: 'skills_dir = "/skills"' }, null),
    'environment/Dockerfile': `FROM ${IMAGE}\nCOPY greet /skills/greet\n`,
    'environment/greet/SKILL.md': 'hello',
  })
  const record = await runner.run(task, harness, 'workspace', { model: model(), bundles: { folder } })
  expect(record).toMatchObject({ state: 'passed' })
})

test.each([
  ['is for another architecture', '\u007fELF\u0002\u0001\u0001', 'does not run in the image'],
  ['needs a library that the image lacks', '#!/lib/ld-musl-nowhere.so.1\n', 'does not run in the image'],
])('a program that %s is an operator error, and nothing is run', async (_name, script, message) => {
  const { harness, folder } = program(`unfit-${script.length}`, script)
  const task = writeTask(join(runner.folder, `unfit ${script.length}`))
  const onConnection = vi.fn<() => void>()
  const port = { port: 31_281, onConnection }
  const record = await runner.run(task, harness, 'workspace', { model: model({ port }), bundles: { folder } })
  expect(record).toMatchObject({ state: 'errored', class: 'operator_error', reward: null, steps: [] })
  expect(record.error).toContain(message)
  expect(onConnection).not.toHaveBeenCalled()
})

/** Returns a changed copy of a program of this machine. */
function changed(bytes: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes)
  change(copy)
  return copy
}

const TRUE = readFileSync('/bin/true')
const LOADER = TRUE.indexOf('/lib64/ld-linux')
const toMusl = (copy: Buffer) =>
  void copy.fill('/lib/ld-musl-x86_64.so.1', LOADER, LOADER + 28).fill(0, LOADER + 24, LOADER + 28)

test.skipIf(process.arch !== 'x64').each<[string, Buffer | null, string]>([
  [
    'is for another architecture',
    changed(TRUE, (copy) => void copy.writeUInt16LE(183, 18)),
    'built for ARM 64, but this',
  ],
  [
    'needs another C library',
    changed(TRUE, toMusl),
    'It needs /lib/ld-musl-x86_64.so.1 and its libraries in the image',
  ],
  [
    'needs an interpreter that the image lacks',
    Buffer.from('#!/usr/bin/env python9\n'),
    'needs /usr/bin/env python9 in',
  ],
  ['is not a program', Buffer.from('hello'), 'neither a Linux executable nor a script'],
  ['is truncated', TRUE.subarray(0, 60), 'neither a Linux executable'],
  ['does not exist', null, 'bundle does not contain this file'],
])('an uploaded program that %s is an operator error with an explanation', async (name, bytes, message) => {
  const place = join(runner.folder, `sent-${name}`)
  mkdirSync(place)
  if (bytes) writeFileSync(join(place, 'run'), bytes)
  else writeFileSync(join(place, 'other'), '')
  const archive = await buffer(create({ gzip: true, cwd: place }, ['.']))
  const digest = `sha256:${createHash('sha256').update(archive).digest('hex')}`
  const harness = buildCustomHarness({
    ...{ id: 'custom/a', name: 'Own', version: '1', protocols: ['openai-chat'], levels: {}, env: {}, files: [] },
    ...{ command: ['{bundle}/run'], bundle: { digest, node: false, probe: ['{bundle}/run'] } },
  })
  const onConnection = vi.fn<() => void>()
  const record = await runner.run(writeTask(join(runner.folder, `task-${name}`)), harness, 'workspace', {
    model: model({ port: { port: 31_281, onConnection } }),
    bundles: { folder: join(runner.folder, 'sent-bundles'), openUploaded: async () => Readable.from([archive]) },
  })
  expect(record).toMatchObject({ state: 'errored', class: 'operator_error', steps: [] })
  expect(record.error).toContain(message)
  expect(onConnection).not.toHaveBeenCalled()
})

test.each(['{bundle}/../outside', '{bundle}/sub/../../outside', '{bundle}/sub'])(
  'a program at %s, outside the bundle, is not read',
  async (program) => {
    const name = `outside-${program.replaceAll(/\W/g, '-')}`
    const bundles = join(runner.folder, name)
    mkdirSync(join(bundles, 'packed/sub'), { recursive: true })
    writeFileSync(join(bundles, 'outside'), '#!/secret/of/the/worker\n')
    writeFileSync(join(bundles, 'packed/run'), '')
    const archive = await buffer(create({ gzip: true, cwd: join(bundles, 'packed') }, ['.']))
    const digest = `sha256:${createHash('sha256').update(archive).digest('hex')}`
    const harness = buildCustomHarness({
      ...{ id: 'custom/a', name: 'Own', version: '1', protocols: ['openai-chat'], levels: {}, env: {}, files: [] },
      ...{ command: ['{bundle}/run'], bundle: { digest, node: false, probe: [program] } },
    })
    const record = await runner.run(writeTask(join(runner.folder, `task-${name}`)), harness, 'workspace', {
      model: model(),
      bundles: { folder: bundles, openUploaded: async () => Readable.from([archive]) },
    })
    expect(record).toMatchObject({ state: 'errored', class: 'operator_error', steps: [] })
    expect(record.error).toContain('bundle does not contain this file')
  },
)

test('a program that refuses a task is an operator error', async () => {
  const { harness, folder } = program('good', '#!/bin/bash\n[ "$1" = --version ] || echo hello > /app/hello.txt\n')
  const task = writeTask(join(runner.folder, 'refused'))
  const plan = (): never => {
    throw new HarnessUnfit('It cannot do this.')
  }
  expect(
    await runner.run(task, { ...harness, plan }, 'workspace', { model: model(), bundles: { folder } }),
  ).toMatchObject({ class: 'operator_error', error: 'It cannot do this.' })
})

test('without a folder for bundles nothing is run', async () => {
  const { harness } = program('homeless', '#!/bin/bash\n')
  const task = writeTask(join(runner.folder, 'homeless'))
  expect(await runner.run(task, harness, 'workspace', { model: model() })).toMatchObject({ class: 'operator_error' })
})

test('a proxy that the image sets is not used for the model', async () => {
  const script = `#!/bin/bash\n[ "$1" = --version ] || { echo "$http_proxy $no_proxy" > /app/said; ${ASKS} > /app/hello.txt; }\n`
  const { harness, folder } = program('proxied', script, { env: toEnv({}) })
  const task = writeTask(join(runner.folder, 'proxied'), {
    'task.toml': taskToml({}, null),
    'environment/Dockerfile': `FROM ${IMAGE}\nENV http_proxy=http://nowhere:1\n`,
    'tests/test.sh':
      '#!/bin/bash\n[ "$(cat /app/said)" = "http://nowhere:1 localhost,127.0.0.1,::1" ] && echo 1 > /logs/verifier/reward.txt\n',
  })
  const record = await runner.run(task, harness, 'workspace', { model: model(), bundles: { folder } })
  expect(record).toMatchObject({ state: 'passed' })
})
