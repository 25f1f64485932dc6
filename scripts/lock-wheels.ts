import { execFileSync } from 'node:child_process'
import { parse } from 'smol-toml'
import { ANY_PYTHON, type Wheel, type WheelLock } from '../src/harnesses/bundles/bundle.ts'

/** Platforms of `uv` by architecture. */
const PLATFORMS = { x64: 'x86_64-manylinux_2_28', arm64: 'aarch64-manylinux_2_28' }

/** A lock file in the format of PEP 751. */
type PyLock = { packages: { name: string; version: string; wheels: { url: string; hashes: { sha256: string } }[] }[] }

/** Resolves a program and its dependencies with `uv`, which must be on the PATH, for each Python and architecture. */
export function lockWheels(lock: WheelLock): Wheel[] {
  const targets = lock.pythons.flatMap((python) => Object.keys(PLATFORMS).map((cpu) => ({ python, cpu })))
  const wheelUses = targets.flatMap(({ python, cpu }) => resolveWheels(lock, python, cpu as keyof typeof PLATFORMS))
  const usesByDigest = Map.groupBy(wheelUses, ({ sha256 }) => sha256)
  return [...usesByDigest.values()].flatMap((uses) => mergeUses(uses, lock.pythons))
}

/** A wheel for one version of Python, which is its path, on one architecture. */
type WheelUse = Wheel & { cpu: string }

function resolveWheels(lock: WheelLock, python: string, cpu: keyof typeof PLATFORMS): WheelUse[] {
  const compileArguments = ['pip', 'compile', '--quiet', '--only-binary', ':all:', '--format', 'pylock.toml', '-']
  const targetArguments = ['--python-version', python, '--python-platform', PLATFORMS[cpu]]
  const requirements = [`${lock.package}==${lock.version}`, ...(lock.with ?? [])].join('\n')
  const { packages } = parse(
    execFileSync('uv', [...compileArguments, ...targetArguments], { input: requirements, encoding: 'utf8' }),
  ) as unknown as PyLock
  const includedPackages = packages.filter(({ name }) => !lock.without?.includes(name))
  return includedPackages.map(({ name, version, wheels }) => {
    const wheel = wheels.find(({ url }) => !url.endsWith('-any.whl')) ?? wheels[0]
    if (!wheel) throw new Error(`${name} ${version} has no wheel for Python ${python} on ${cpu}.`)
    return { path: python, name, version, sha256: wheel.hashes.sha256, cpu }
  })
}

/** Merges the uses of one wheel. A wheel that every version of Python uses is installed once for all of them. */
function mergeUses(uses: WheelUse[], pythons: string[]): Wheel[] {
  const [first] = uses
  if (!first) return []
  const { name, version, sha256 } = first
  const isUsedOnAll = (key: 'path' | 'cpu', values: string[]) =>
    values.every((value) => uses.some((use) => use[key] === value))
  const cpu = isUsedOnAll('cpu', Object.keys(PLATFORMS)) ? {} : { cpu: first.cpu }
  const paths = isUsedOnAll('path', pythons) ? [ANY_PYTHON] : [...new Set(uses.map(({ path }) => path))]
  return paths.map((path) => ({ path, name, version, sha256, ...cpu }))
}
