import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { openFolderRegistry } from '../../../src/harbor/registries/folder.ts'
import { openPackageRegistry } from '../../../src/harbor/registries/package-registry.ts'
import type { Registry } from '../../../src/harbor/registries/registry.ts'
import { openRegistryJson } from '../../../src/harbor/registries/registry-json.ts'
import type { Digest } from '../../../src/platform/blobs/blob.ts'
import { startPackageRegistry } from '../package-registry.ts'
import { smallTask } from '../package-registry-rows.ts'
import type { DownloadFixture } from './download-fixture.ts'
import { commitFiles, startGitServer } from './git-server.ts'

/**
 * A registry in which there are `lab/pair` (tasks lab/b and lab/a, with the version 1.0), `lab/none` without tasks,
 * `lab/crowd` with 501, and the task `lab/a` where tasks have names of their own.
 */
export type RegistryFixture = AsyncDisposable & {
  registry: Registry
  knowsTasks: boolean
  knowsDigests: boolean
  versions?: string[]
}

export const PAIR = ['lab/b', 'lab/a']
export const listTaskFiles = (name: string): [string, string][] =>
  smallTask(name).map(([path, content]) => [path, String(content)])
const CROWD = Array.from({ length: 501 }, (_, place) => `lab/crowd-${place}`)

export const REGISTRY_FIXTURES: [string, (fixture: DownloadFixture) => Promise<RegistryFixture>][] = [
  ['the package registry', createPackageFixture],
  ['registry.json', createJsonFixture],
  ['a folder', createFolderFixture],
]

async function createPackageFixture({ outbound, retryTimer }: DownloadFixture): Promise<RegistryFixture> {
  const server = await startPackageRegistry()
  const { rows } = server
  const tasks = []
  for (const name of PAIR) tasks.push(await rows.publishTask({ name }))
  rows.publishDataset({ name: 'lab/pair', tasks, tags: ['1.0'] })
  rows.publishDataset({ name: 'lab/none', tasks: [] })
  const digest: Digest = `sha256:${'0'.repeat(64)}`
  rows.publishDataset({ name: 'lab/crowd', tasks: CROWD.map((name) => rows.addTask(name, digest)) })
  const registry = openPackageRegistry({ name: 'harbor', outbound, retryTimer, ...server })
  return { registry, knowsTasks: true, knowsDigests: true, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

async function createJsonFixture({ folder, outbound, retryTimer, scratch }: DownloadFixture): Promise<RegistryFixture> {
  const server = await startGitServer(folder)
  const files = PAIR.flatMap((name) =>
    listTaskFiles(name).map(([path, text]) => [`tasks/${name}/${path}`, text] as const),
  )
  const commit = commitFiles(join(folder, 'repository'), files)
  const taskOf = (name: string) => ({
    name,
    git_url: `${server.url}/repository/.git`,
    git_commit_id: commit,
    path: `tasks/${name}`,
  })
  const entries = [
    { name: 'lab/pair', version: '1.0', description: 'Two.', tasks: PAIR.map(taskOf) },
    { name: 'lab/none', version: '1.0', description: '', tasks: [] },
    { name: 'lab/crowd', version: '1.0', description: '', tasks: CROWD.map(taskOf) },
  ]
  server.pages.set('/registry.json', JSON.stringify(entries))
  const location = `${server.url}/registry.json`
  const registry = openRegistryJson({ name: location, location, outbound, retryTimer, scratch })
  return {
    registry,
    knowsTasks: false,
    knowsDigests: false,
    versions: ['1.0'],
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function createFolderFixture({ folder }: DownloadFixture): Promise<RegistryFixture> {
  const root = join(folder, 'datasets')
  for (const name of PAIR) await writeTask(join(root, 'lab/pair', name.slice('lab/'.length)), name)
  await writeFile(join(root, 'lab/pair/dataset.toml'), '[dataset]\nname = "lab/pair"\nversion = "1.0"\n')
  await mkdir(join(root, 'lab/none'))
  for (const name of CROWD) await writeTask(join(root, 'lab/crowd', name.slice('lab/'.length)), name)
  await writeTask(join(root, 'lab/a'), 'lab/a')
  const registry = openFolderRegistry({ name: `dir:${root}`, folder: root })
  return {
    registry,
    knowsTasks: true,
    knowsDigests: true,
    versions: ['1.0'],
    [Symbol.asyncDispose]: async () => undefined,
  }
}

export async function writeTask(folder: string, name: string): Promise<void> {
  for (const [path, text] of listTaskFiles(name)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
}
