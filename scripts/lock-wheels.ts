import { execFileSync } from 'node:child_process'
import { parse } from 'smol-toml'
import { ANY_PYTHON, type Wheel, type WheelLock } from '../src/harnesses/bundles/bundle.ts'

const PLATFORMS = { x64: 'x86_64-manylinux_2_28', arm64: 'aarch64-manylinux_2_28' }

type PyLock = { packages: { name: string; version: string; wheels: { url: string; hashes: { sha256: string } }[] }[] }

/** Resolves a program and its dependencies with `uv`, which must be on the PATH, for each Python and architecture. */
export function lockWheels(lock: WheelLock): Wheel[] {
  const targets = lock.pythons.flatMap((python) => Object.keys(PLATFORMS).map((cpu) => ({ python, cpu })))
  const found = targets.flatMap(({ python, cpu }) => resolve(lock, python, cpu as keyof typeof PLATFORMS))
  const byArchive = Map.groupBy(found, ({ sha256 }) => sha256)
  return [...byArchive.values()].flatMap((uses) => toEntries(uses, lock.pythons))
}

type WheelUse = Wheel & { cpu: string }

function resolve(lock: WheelLock, python: string, cpu: keyof typeof PLATFORMS): WheelUse[] {
  const words = ['pip', 'compile', '--quiet', '--only-binary', ':all:', '--format', 'pylock.toml', '-']
  const target = ['--python-version', python, '--python-platform', PLATFORMS[cpu]]
  const input = [`${lock.package}==${lock.version}`, ...(lock.with ?? [])].join('\n')
  const { packages } = parse(
    execFileSync('uv', [...words, ...target], { input, encoding: 'utf8' }),
  ) as unknown as PyLock
  const loaded = packages.filter(({ name }) => !lock.without?.includes(name))
  return loaded.map(({ name, version, wheels }) => {
    const wheel = wheels.find(({ url }) => !url.endsWith('-any.whl')) ?? wheels[0]
    if (!wheel) throw new Error(`${name} ${version} has no wheel for Python ${python} on ${cpu}.`)
    return { path: python, name, version, sha256: wheel.hashes.sha256, cpu }
  })
}

/** Merges the uses of one archive: it is installed once if every version of Python uses it. */
function toEntries(uses: WheelUse[], pythons: string[]): Wheel[] {
  const [first] = uses
  if (!first) return []
  const { name, version, sha256 } = first
  const isForEvery = (key: 'path' | 'cpu', all: string[]) => all.every((each) => uses.some((use) => use[key] === each))
  const cpu = isForEvery('cpu', Object.keys(PLATFORMS)) ? {} : { cpu: first.cpu }
  const paths = isForEvery('path', pythons) ? [ANY_PYTHON] : [...new Set(uses.map(({ path }) => path))]
  return paths.map((path) => ({ path, name, version, sha256, ...cpu }))
}
