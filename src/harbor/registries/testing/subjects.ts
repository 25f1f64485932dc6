import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { startPackageRegistry } from '../../../../test/support/package-registry.ts'
import { smallTask } from '../../../../test/support/package-registry-rows.ts'
import type { Digest } from '../../../platform/blobs/blob.ts'
import { folderRegistry } from '../folder.ts'
import { packageRegistry } from '../package-registry.ts'
import type { Registry } from '../registry.ts'
import { registryJson } from '../registry-json.ts'
import { commitFiles, startGitServer } from './git-server.ts'
import type { Workbench } from './workbench.ts'

/**
 * A registry in which there are `lab/pair` (tasks lab/b and lab/a, with the version 1.0), `lab/none` without tasks,
 * `lab/crowd` with 501, and the task `lab/a` where tasks have names of their own.
 */
export type Subject = AsyncDisposable & {
  registry: Registry
  knowsTasks: boolean
  knowsDigests: boolean
  versions?: string[]
}

export const PAIR = ['lab/b', 'lab/a']
export const filesOf = (name: string): [string, string][] =>
  smallTask(name).map(([path, content]) => [path, String(content)])
const CROWD = Array.from({ length: 501 }, (_, place) => `lab/crowd-${place}`)

export const SUBJECTS: [string, (bench: Workbench) => Promise<Subject>][] = [
  ['the package registry', packages],
  ['registry.json', listed],
  ['a folder', folders],
]

async function packages({ outbound, patience }: Workbench): Promise<Subject> {
  const server = await startPackageRegistry()
  const { rows } = server
  const tasks = []
  for (const name of PAIR) tasks.push(await rows.publishTask({ name }))
  rows.publishDataset({ name: 'lab/pair', tasks, tags: ['1.0'] })
  rows.publishDataset({ name: 'lab/none', tasks: [] })
  const digest: Digest = `sha256:${'0'.repeat(64)}`
  rows.publishDataset({ name: 'lab/crowd', tasks: CROWD.map((name) => rows.addTask(name, digest)) })
  const registry = packageRegistry({ name: 'harbor', outbound, patience, ...server })
  return { registry, knowsTasks: true, knowsDigests: true, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

async function listed({ folder, outbound, patience, scratch }: Workbench): Promise<Subject> {
  const server = await startGitServer(folder)
  const files = PAIR.flatMap((name) => filesOf(name).map(([path, text]) => [`tasks/${name}/${path}`, text] as const))
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
  const registry = registryJson({ name: location, location, outbound, patience, scratch })
  return {
    registry,
    knowsTasks: false,
    knowsDigests: false,
    versions: ['1.0'],
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function folders({ folder }: Workbench): Promise<Subject> {
  const root = join(folder, 'datasets')
  for (const name of PAIR) await writeTask(join(root, 'lab/pair', name.slice('lab/'.length)), name)
  await writeFile(join(root, 'lab/pair/dataset.toml'), '[dataset]\nname = "lab/pair"\nversion = "1.0"\n')
  await mkdir(join(root, 'lab/none'))
  for (const name of CROWD) await writeTask(join(root, 'lab/crowd', name.slice('lab/'.length)), name)
  await writeTask(join(root, 'lab/a'), 'lab/a')
  const registry = folderRegistry({ name: `dir:${root}`, folder: root })
  return {
    registry,
    knowsTasks: true,
    knowsDigests: true,
    versions: ['1.0'],
    [Symbol.asyncDispose]: async () => undefined,
  }
}

export async function writeTask(folder: string, name: string): Promise<void> {
  for (const [path, text] of filesOf(name)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
}
