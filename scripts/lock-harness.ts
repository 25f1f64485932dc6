import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { BundleLock, Tarball, WheelLock } from '../src/harnesses/bundles/bundle.ts'
import { lockWheels } from './lock-wheels.ts'

// node scripts/lock-harness.ts [id …] [--version 1.2.3]: reads the archives of each program from the registry and writes
// them into its lock file. Without ids it updates all lock files at their current versions.

const FOLDER = join(import.meta.dirname, '../src/harnesses/bundles')
const CPUS = ['x64', 'arm64']
/** Target folder of a program that consists of a single archive. */
const PROGRAM = 'program'

type PackageLock = {
  name?: string
  version: string
  integrity?: string
  os?: string[]
  cpu?: string[]
  libc?: string[]
}

const { values, positionals } = parseArgs({ options: { version: { type: 'string' } }, allowPositionals: true })
const all = readdirSync(FOLDER).flatMap((name) => /^(.+)\.lock\.json$/.exec(name)?.[1] ?? [])
for (const id of positionals.length > 0 ? positionals : all) {
  const path = join(FOLDER, `${id}.lock.json`)
  const lock: BundleLock | WheelLock = JSON.parse(readFileSync(path, 'utf8'))
  const filled = fill({ ...lock, version: values.version ?? lock.version })
  writeFileSync(path, `${JSON.stringify(filled, null, 2)}\n`)
  console.log(`${id} ${filled.version}: ${'wheels' in filled ? filled.wheels.length : filled.tarballs.length} archives`)
}

function fill(lock: BundleLock | WheelLock): BundleLock | WheelLock {
  if ('wheels' in lock) return { ...lock, wheels: lockWheels(lock) }
  return { ...lock, tarballs: lock.only ? lockPrograms(lock) : lockDependencyTree(lock) }
}

/** Returns the single archive of a self-contained program, for each architecture. */
function lockPrograms({ only = [], version }: BundleLock): Tarball[] {
  return only.map((spec) => {
    const [name, tag = version] = spec.replaceAll('$version', version).split(/(?<=.)@/)
    const cpu = CPUS.find((each) => spec.endsWith(each))
    if (name === undefined || cpu === undefined)
      throw new Error(`${spec} does not end with an architecture (${CPUS.join(', ')}).`)
    const integrity = execFileSync('npm', ['view', `${name}@${tag}`, 'dist.integrity'], { encoding: 'utf8' }).trim()
    return { path: PROGRAM, name, version: tag, integrity, cpu }
  })
}

/** Returns the package with its dependencies, as npm installs it on Linux with glibc. */
function lockDependencyTree({ package: name, version }: BundleLock): Tarball[] {
  const folder = mkdtempSync(join(tmpdir(), 'assay-lock-'))
  try {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ dependencies: { [name]: version } }))
    const args = ['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund']
    execFileSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
    const { packages }: { packages: Record<string, PackageLock> } = JSON.parse(
      readFileSync(join(folder, 'package-lock.json'), 'utf8'),
    )
    return Object.entries(packages).flatMap(([path, locked]) => (path === '' ? [] : toTarballs(path, locked)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function toTarballs(path: string, { name, version, integrity, os, cpu, libc }: PackageLock): Tarball[] {
  if (os && !os.includes('linux')) return []
  if (libc && !libc.includes('glibc')) return []
  if (integrity === undefined) throw new Error(`${path} has no integrity.`)
  const archive = { path, name: name ?? path.slice(path.lastIndexOf('node_modules/') + 13), version, integrity }
  if (!cpu || CPUS.every((each) => cpu.includes(each))) return [archive]
  return CPUS.filter((each) => cpu.includes(each)).map((each) => ({ ...archive, cpu: each }))
}
