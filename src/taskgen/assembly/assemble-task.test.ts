import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readFiles, temporaryFolder, writeFiles } from '../../../test/support/harbor/folders.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { checkTask } from '../../harbor/safety/check-task.ts'
import { type AssembleTaskInput, assembleTask as emit } from './assemble-task.ts'
import { DEFAULT_RESOURCES } from './generated-task.ts'

const DOCKERFILE = `FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends git python3 && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace/repo
COPY manifests/ ./
ADD repo.tar.gz ./
`

const orderIn = (environmentFolder: string): AssembleTaskInput => ({
  name: 'generated/k3v9q1',
  title: 'Totals are rounded once',
  markdown: '# Totals are rounded once\n\nSay what happens.\n',
  difficulty: 'medium',
  buildTimeoutSec: 1200,
  agentTimeoutSec: 3600,
  resources: DEFAULT_RESOURCES,
  environmentFolder,
  source: 'diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-caf\xe9\n+tea\n',
  plan: { runner: 'pytest', prepare: [], targets: ['tests/test_a.py'], timeoutSec: 360 },
  lists: {
    failToPass: ['tests/test_a.py::test_ü'],
    passToPass: ['tests/test_a.py::test_b'],
    guards: ['tests/test_a.py::test_c'],
  },
  hidden: {
    files: [{ path: 'tests/test_a.py', content: 'assert "\xff"\n', executable: true }],
    deleted: ['tests/test_old.py'],
  },
})

async function emitGenerated(folder: string, order: AssembleTaskInput) {
  const result = await emit(folder, order)
  if (result.kind !== 'done') throw new Error(JSON.stringify(result))
  return result.value
}

/** An environment, and a place for a task. */
async function openPlace() {
  const place = await temporaryFolder()
  const environment = join(place.path, 'environment')
  await writeFiles(environment, {
    Dockerfile: DOCKERFILE,
    'repo.tar.gz': Buffer.alloc(2000, 'not really an archive'),
    'manifests/requirements.txt': 'pytest==8.3.4 and forty more characters than that\n',
  })
  return {
    order: orderIn(environment),
    folder: join(place.path, 'k3v9q1'),
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  }
}

test('writes a task deterministically', async () => {
  await using place = await openPlace()
  await emitGenerated(place.folder, place.order)
  const files = await readFiles(place.folder)
  for (const path of ['task.toml', 'environment/Dockerfile', 'tests/Dockerfile', 'solution/solve.sh']) {
    await expect(files[path]).toMatchFileSnapshot(`../../../test/support/taskgen/golden/${path.replace('/', '-')}`)
  }
  expect(
    Object.keys(files)
      .filter((path) => !path.endsWith('.py'))
      .toSorted(),
  ).toEqual([
    'environment/Dockerfile',
    'environment/manifests/requirements.txt',
    'environment/repo.tar.gz',
    'instruction.md',
    'solution/fix.patch',
    'solution/solve.sh',
    'task.toml',
    'tests/Dockerfile',
    'tests/grader/f2p.json',
    'tests/grader/guards.json',
    'tests/grader/hidden.json',
    'tests/grader/p2p.json',
    'tests/grader/run.json',
    'tests/grader/test.sh',
    'tests/manifests/requirements.txt',
    'tests/repo.tar.gz',
  ])
  expect(JSON.parse(files['tests/grader/f2p.json'] ?? '')).toEqual(place.order.lists.failToPass)
  expect((await readFile(join(place.folder, 'solution/fix.patch'))).includes(0xe9)).toBe(true)
  expect((await readFile(join(place.folder, 'tests/grader/hidden/tests/test_a.py'))).includes(0xff)).toBe(true)
  expect((await stat(join(place.folder, 'solution/solve.sh'))).mode & 0o777).toBe(0o755)
})

test('reads an emitted task back unchanged', async () => {
  await using place = await openPlace()
  const { task, warnings } = await emitGenerated(place.folder, place.order)
  expect(warnings).toEqual([])
  expect(task).toMatchObject({
    name: 'generated/k3v9q1',
    metadata: { difficulty: 'medium' },
    environment: { network: { mode: 'no-network', hosts: [] }, workdir: '/workspace/repo' },
    steps: [
      {
        instruction: place.order.markdown,
        agent: { network: { mode: 'no-network', hosts: [] }, timeoutSec: 3600 },
        verifier: {
          network: { mode: 'no-network', hosts: [] },
          sandbox: { mode: 'separate', environment: { dockerfile: 'tests/Dockerfile' } },
          collect: [{ service: 'main', user: 'root' }],
        },
        artifacts: [{ source: '/logs/artifacts/submission.patch' }],
        solution: { script: 'solution/solve.sh' },
      },
    ],
  })
})

test('passes the safety check', async () => {
  await using place = await openPlace()
  await emitGenerated(place.folder, place.order)
  expect((await checkTask(await openFolderSource(place.folder))).findings).toEqual([])
})

test('preserves any title and text', async () => {
  await using place = await openPlace()
  const strange = fc.constantFrom('"""', "'''", '\\', '\r\n', '\u0001', '[x]\n')
  const any = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), strange)
  const text = any.filter((each) => !/[\0\u202D\u202E\u{E0020}-\u{E007F}]/u.test(each))
  let n = 0
  await fc.assert(
    fc.asyncProperty(text, text, async (title, markdown) => {
      n += 1
      const { task } = await emitGenerated(`${place.folder}-${n}`, { ...place.order, title, markdown: `# ${markdown}` })
      expect(task.package?.description).toBe(title)
      expect(task.steps[0].instruction).toBe(`# ${markdown}`.replaceAll(/\r\n?/g, '\n'))
    }),
    { numRuns: 60 },
  )
})

test('the verifier image begins with the lines of the environment, so that layers are shared', async () => {
  await using place = await openPlace()
  await emitGenerated(place.folder, place.order)
  for (const folder of ['environment', 'tests']) {
    expect((await readFile(join(place.folder, folder, 'Dockerfile'), 'utf8')).startsWith(DOCKERFILE)).toBe(true)
  }
})

test.each([
  ['a file that Harbor would not pack', { path: 'tests/old.swp' }, /old\.swp: Harbor would not pack it/],
  ['a name that is two names', { path: 'tests/back\\slash.py' }, /unsafe|same everywhere/],
])('rejects a task with %s', async (_, file, detail) => {
  await using place = await openPlace()
  const hidden = { files: [{ content: 'x', executable: false, ...file }], deleted: [] }
  const result = await emit(place.folder, { ...place.order, hidden })
  expect(result).toMatchObject({ kind: 'rejected', reason: 'schema_invalid', detail: expect.stringMatching(detail) })
})

test('rejects an instruction with invisible text', async () => {
  await using place = await openPlace()
  const result = await emit(place.folder, { ...place.order, markdown: 'Fix it.\u202e\n' })
  expect(result).toMatchObject({ kind: 'rejected', reason: 'schema_invalid' })
})

test('accepts an image of a private registry only if its host is allowed', async () => {
  await using place = await openPlace()
  const dockerfile = DOCKERFILE.replace('debian:', '10.1.2.3:5000/debian:')
  await writeFiles(place.order.environmentFolder, { Dockerfile: dockerfile })
  const emitWith = (name: string, buildHosts: AssembleTaskInput['buildHosts']) =>
    emit(`${place.folder}-${name}`, { ...place.order, buildHosts })
  expect(await emitWith('refused', undefined)).toMatchObject({ kind: 'rejected', reason: 'schema_invalid' })
  expect(await emitWith('allowed', [{ host: '10.1.2.3', port: 5000 }])).toMatchObject({ kind: 'done' })
})

test('refuses an environment folder that uses reserved names', async () => {
  await using place = await openPlace()
  await writeFiles(place.order.environmentFolder, { 'grader/test.sh': 'exit 0\n' })
  await expect(emitGenerated(place.folder, place.order)).rejects.toThrow('EEXIST')
})
