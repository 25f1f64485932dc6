import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { BundleLock, Tarball, WheelLock } from '../src/harnesses/bundles/bundle.ts'
import { lockWheels } from './lock-wheels.ts'

// node scripts/lock-harness.ts [id …] [--version 1.2.3]: reads versions and digests of the archives of each harness from
// the registry and writes them into its lock file. Without ids it updates all lock files, without --version it keeps the
// version of each.

const LOCK_FOLDER = join(import.meta.dirname, '../src/harnesses/bundles')
const CPUS = ['x64', 'arm64']
/** Folder in the bundle of a program that consists of a single archive. */
const PROGRAM_PATH = 'program'

/** An entry of `package-lock.json`. */
type LockedPackage = {
  name?: string
  version: string
  integrity?: string
  os?: string[]
  cpu?: string[]
  libc?: string[]
}

const { values, positionals } = parseArgs({ options: { version: { type: 'string' } }, allowPositionals: true })
const allIds = readdirSync(LOCK_FOLDER).flatMap((name) => /^(.+)\.lock\.json$/.exec(name)?.[1] ?? [])
for (const id of positionals.length > 0 ? positionals : allIds) {
  const path = join(LOCK_FOLDER, `${id}.lock.json`)
  const lock: BundleLock | WheelLock = JSON.parse(readFileSync(path, 'utf8'))
  const updated = resolveArchives({ ...lock, version: values.version ?? lock.version })
  writeFileSync(path, `${JSON.stringify(updated, null, 2)}\n`)
  const archives = 'wheels' in updated ? updated.wheels : updated.tarballs
  console.log(`${id} ${updated.version}: ${archives.length} archives`)
}

function resolveArchives(lock: BundleLock | WheelLock): BundleLock | WheelLock {
  if ('wheels' in lock) return { ...lock, wheels: lockWheels(lock) }
  return { ...lock, tarballs: lock.only ? lockPrograms(lock) : lockDependencyTree(lock) }
}

/** Returns the archives of a self-contained program, one per architecture. `only` lists their packages, with `$version`. */
function lockPrograms({ only = [], version }: BundleLock): Tarball[] {
  return only.map((spec) => {
    // A scope begins with @ too, so only an @ after the first character separates name and version.
    const [name, tag = version] = spec.replaceAll('$version', version).split(/(?<=.)@/)
    const cpu = CPUS.find((each) => spec.endsWith(each))
    if (name === undefined || cpu === undefined)
      throw new Error(`${spec} does not end with an architecture (${CPUS.join(', ')}).`)
    const integrity = execFileSync('npm', ['view', `${name}@${tag}`, 'dist.integrity'], { encoding: 'utf8' }).trim()
    return { path: PROGRAM_PATH, name, version: tag, integrity, cpu }
  })
}

/** Returns the package with its dependencies, as npm installs it on Linux with glibc. */
function lockDependencyTree({ package: name, version }: BundleLock): Tarball[] {
  const folder = mkdtempSync(join(tmpdir(), 'assay-lock-'))
  try {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ dependencies: { [name]: version } }))
    const args = ['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund']
    execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
    const { packages }: { packages: Record<string, LockedPackage> } = JSON.parse(
      readFileSync(join(folder, 'package-lock.json'), 'utf8'),
    )
    return Object.entries(packages).flatMap(([path, locked]) => (path === '' ? [] : toTarballs(path, locked)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Returns the archive of a package once if it runs on all architectures, otherwise once per architecture. */
function toTarballs(path: string, { name, version, integrity, os, cpu, libc }: LockedPackage): Tarball[] {
  if (os && !os.includes('linux')) return []
  if (libc && !libc.includes('glibc')) return []
  if (integrity === undefined) throw new Error(`${path} has no integrity.`)
  const nameInPath = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const archive = { path, name: name ?? nameInPath, version, integrity }
  if (!cpu || CPUS.every((each) => cpu.includes(each))) return [archive]
  return CPUS.filter((each) => cpu.includes(each)).map((each) => ({ ...archive, cpu: each }))
}
