import { parse } from 'smol-toml'
import { z } from 'zod'
import type { TreeFacts } from '../suite.ts'

/** `uv.lock`, `poetry.lock` and `pdm.lock` list their packages in the same way. */
const TomlLock = z.object({
  package: z.array(z.object({ name: z.string(), version: z.string().optional(), source: z.unknown().optional() })),
})
const Section = z.record(z.string(), z.object({ version: z.string().optional() }).catch({}))
const PipfileLock = z.object({ default: Section.default({}), develop: Section.default({}) })
const PipfileSections = z.object({
  packages: z.record(z.string(), z.unknown()).default({}),
  'dev-packages': z.record(z.string(), z.unknown()).default({}),
})

const NAME = /^[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?$/
const VERSION = /^\d[\w.!-]*$/
const LOCAL_SOURCE = /"(?:editable|virtual|directory|git|path|url)"/
const TOML_LOCKS = ['uv.lock', 'poetry.lock', 'pdm.lock']

type LockedPackage = { name: string; version: string }

/**
 * Lists the versions of lock files as constraints (`name==version`), so that the usual installation selects them.
 * Leaves out packages that do not come from an index, and packages with several versions, because the platform decides
 * which one is used.
 */
export function listConstraints(tree: TreeFacts): string[] {
  const locked = [...TOML_LOCKS.flatMap((path) => readTomlLock(tree, path)), ...readPipfileLock(tree)]
  const versions = new Map<string, Set<string>>()
  for (const { name, version } of locked) {
    if (!NAME.test(name) || !VERSION.test(version)) continue
    versions.set(name, (versions.get(name) ?? new Set()).add(version))
  }
  return [...versions]
    .filter(([, found]) => found.size === 1)
    .map(([name, [version]]) => `${name}==${version}`)
    .toSorted()
}

function readTomlLock({ texts }: TreeFacts, path: string): LockedPackage[] {
  const packages = TomlLock.safeParse(parseText(() => parse(texts.get(path) ?? ''))).data?.package ?? []
  return packages.flatMap(({ name, version, source }) =>
    version === undefined || LOCAL_SOURCE.test(JSON.stringify(source ?? null)) ? [] : [{ name, version }],
  )
}

function readPipfileLock({ texts }: TreeFacts): LockedPackage[] {
  const lock = PipfileLock.safeParse(parseText(() => JSON.parse(texts.get('Pipfile.lock') ?? '{}'))).data
  return Object.entries({ ...lock?.default, ...lock?.develop }).flatMap(([name, { version }]) =>
    version?.startsWith('==') ? [{ name, version: version.slice(2) }] : [],
  )
}

/** Lists the packages of a `Pipfile` by name. Its lock file, or the freeze day, selects their versions. */
export function listPipfilePackages({ texts }: TreeFacts): string[] {
  const file = PipfileSections.safeParse(parseText(() => parse(texts.get('Pipfile') ?? ''))).data
  const names = Object.entries({ ...file?.packages, ...file?.['dev-packages'] })
  // A table without a version is a path or a repository.
  return names.flatMap(([name, value]) =>
    NAME.test(name) && (typeof value === 'string' || JSON.stringify(value).includes('"version"')) ? [name] : [],
  )
}

/** Untrusted text that cannot be parsed counts as missing. */
function parseText(read: () => unknown): unknown {
  try {
    return read()
  } catch {
    return undefined
  }
}
