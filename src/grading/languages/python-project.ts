import { parse } from 'smol-toml'
import { z } from 'zod'
import type { TreeFacts } from '../suite.ts'

/** Names of extras and dependency groups that projects use for the requirements of their tests. */
const TEST_GROUP = /^(tests?|testing|dev|develop|development|pytest)$/
const REQUIREMENT = /^[A-Za-z0-9][\w.-]*(\[[\w.,\s-]+\])?\s*([(]?[<>=!~][^;'"`$\\]*)?(;[^`$\\]*)?$/
const NAME = /^[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$/

const Texts = z.array(z.unknown()).transform((list) => list.filter((each) => typeof each === 'string'))
const Groups = z.record(z.string(), z.array(z.unknown()))
const Poetry = z.record(z.string(), z.unknown())

const Project = z.object({
  'build-system': z.unknown().optional(),
  project: z
    .object({
      name: z.string().optional().catch(undefined),
      'requires-python': z.string().optional().catch(undefined),
      dependencies: Texts.catch([]).default([]),
      'optional-dependencies': Groups.catch({}).default({}),
    })
    .optional()
    .catch(undefined),
  'dependency-groups': Groups.catch({}).default({}),
  tool: z
    .object({
      poetry: z
        .object({
          name: z.string().optional().catch(undefined),
          dependencies: Poetry.catch({}).default({}),
          'dev-dependencies': Poetry.catch({}).default({}),
          group: z
            .record(z.string(), z.object({ dependencies: Poetry }))
            .catch({})
            .default({}),
        })
        .optional()
        .catch(undefined),
      pdm: z
        .object({ 'dev-dependencies': Groups.catch({}).default({}) })
        .optional()
        .catch(undefined),
      uv: z
        .object({ 'dev-dependencies': Texts.catch([]).default([]) })
        .optional()
        .catch(undefined),
      hatch: z
        .object({
          envs: z
            .record(
              z.string(),
              z.object({
                dependencies: Texts.catch([]).default([]),
                'extra-dependencies': Texts.catch([]).default([]),
              }),
            )
            .catch({})
            .default({}),
        })
        .optional()
        .catch(undefined),
    })
    .optional()
    .catch(undefined),
})

type Project = z.infer<typeof Project>

/** Parses `pyproject.toml`; invalid fields are ignored. */
function readProject({ texts }: TreeFacts): Project | undefined {
  try {
    return Project.parse(parse(texts.get('pyproject.toml') ?? ''))
  } catch {
    return undefined
  }
}

/** Returns true if pip can install the tree. */
export const isPackage = (tree: TreeFacts): boolean => {
  const project = readProject(tree)
  return tree.paths.has('setup.py') || project?.project !== undefined || project?.['build-system'] !== undefined
}

/** Returns the range of Python versions that the project declares. */
export function findRequiredPython(tree: TreeFacts): string | undefined {
  const project = readProject(tree)
  const poetry = project?.tool?.poetry?.dependencies.python
  const inSetupFile = /\bpython_requires\s*=\s*["']?([<>=!~][^"'\n]*)/.exec(
    tree.texts.get('setup.cfg') ?? tree.texts.get('setup.py') ?? '',
  )?.[1]
  return project?.project?.['requires-python'] ?? (typeof poetry === 'string' ? poetry : inSetupFile)
}

/** Lists the names under which the project is published. */
export function listPublishedNames(tree: TreeFacts): string[] {
  const project = readProject(tree)
  const inSetupFile = /\bname\s*=\s*["']?([\w.-]+)/.exec(
    tree.texts.get('setup.cfg') ?? tree.texts.get('setup.py') ?? '',
  )?.[1]
  const names = [project?.project?.name, project?.tool?.poetry?.name, inSetupFile]
  return [...new Set(names.flatMap((name) => (name !== undefined && NAME.test(name) ? [name] : [])))]
}

/**
 * Lists the packages that the project declares for run time and tests. Entries that cannot be parsed are left to pip.
 */
export function listRequirements(tree: TreeFacts): string[] {
  const project = readProject(tree)
  const listed = [...(project ? listProjectRequirements(project) : []), ...listToolRequirements(tree)]
  const ownNames = new Set(listPublishedNames(tree).map(normaliseName))
  return listed
    .filter((requirement) => typeof requirement === 'string')
    .map((requirement) => requirement.trim())
    .filter(
      (requirement) =>
        REQUIREMENT.test(requirement) && !ownNames.has(normaliseName(/^[\w.-]+/.exec(requirement)?.[0] ?? '')),
    )
}

function listProjectRequirements(project: Project): unknown[] {
  const groups = project['dependency-groups']
  return [
    ...(project.project?.dependencies ?? []),
    ...listTestGroups(project.project?.['optional-dependencies'] ?? {}),
    ...expandGroups(
      groups,
      Object.keys(groups).filter((name) => TEST_GROUP.test(name)),
    ),
    ...listPoetryRequirements(project),
    ...listTestGroups(project.tool?.pdm?.['dev-dependencies'] ?? {}),
    ...(project.tool?.uv?.['dev-dependencies'] ?? []),
    ...Object.entries(project.tool?.hatch?.envs ?? {})
      .filter(([name]) => HATCH_TESTS.test(name))
      .flatMap(([, env]) => [...env.dependencies, ...env['extra-dependencies']]),
  ]
}

/** Environments of Hatch in which tests run. */
const HATCH_TESTS = /^(default|tests?|testing|hatch-test|dev)$/

const listTestGroups = (groups: Record<string, unknown[]>): unknown[] =>
  Object.entries(groups)
    .filter(([name]) => TEST_GROUP.test(name))
    .flatMap(([, requirements]) => requirements)

/** Lists the packages that tox and nox install for tests. */
const listToolRequirements = ({ texts }: TreeFacts): string[] => [
  ...listToxRequirements(texts.get('tox.ini') ?? ''),
  ...listNoxRequirements(texts.get('noxfile.py') ?? ''),
]

/** Reads `deps` of `[testenv]`: on its line, and on indented lines below it. Lines for single tox factors count too. */
function listToxRequirements(text: string): string[] {
  const lines = text.split('\n')
  const section = lines.indexOf('[testenv]')
  const from = lines.findIndex((line, at) => section !== -1 && at > section && /^(?:deps\s*=|\[)/.test(line))
  if (from === -1 || !lines[from]?.startsWith('deps')) return []
  const rest = lines.slice(from + 1)
  const end = rest.findIndex((line) => /^\S/.test(line))
  const firstEntry = lines[from]?.slice(lines[from].indexOf('=') + 1) ?? ''
  const entries = [firstEntry, ...rest.slice(0, end === -1 ? undefined : end)]
  return entries.map((line) =>
    line
      .replace(/^\s*[\w.,!{}-]+:\s+/, '')
      .replace(/(?<!\s)\s+#.*$/, '')
      .trim(),
  )
}

/** Lists the packages that nox sessions install whose names begin with `test`. */
function listNoxRequirements(text: string): string[] {
  const sessions = text.split(/^(?=def )/m).filter((part) => /^def tests?(?:_\w+)?\(session/.test(part))
  const calls = sessions.flatMap((part) => [...part.matchAll(/\bsession\.install\(([^()]{0,2000})\)/g)])
  return calls.flatMap(([, words = '']) =>
    [...words.matchAll(/(["'])([^"'\n]{1,200})\1/g)].map(([, , word = '']) => word),
  )
}

/** Returns true for one requirement that can be a word of a command line. */
export const isRequirement = (text: string): boolean => REQUIREMENT.test(text)

export const normaliseName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')

const Include = z.object({ 'include-group': z.string() })

/** Lists the entries of groups, with those of included groups in their place. Each group is listed once. */
function expandGroups(groups: Record<string, unknown[]>, names: readonly string[]): unknown[] {
  const visited = new Set<string>()
  const entries: unknown[] = []
  // Entries to be read, the next one last. Groups may be nested deeper than calls can be.
  const waiting: unknown[] = names.map((name) => ({ 'include-group': name })).toReversed()
  while (waiting.length > 0) {
    const entry = waiting.pop()
    const name = Include.safeParse(entry).data?.['include-group']
    if (name === undefined) entries.push(entry)
    if (name === undefined || visited.has(name) || !Object.hasOwn(groups, name)) continue
    visited.add(name)
    for (const each of (groups[name] ?? []).toReversed()) waiting.push(each)
  }
  return entries
}

/** Lists the requirements of Poetry. Its own version operators are reduced to the lowest accepted version. */
function listPoetryRequirements({ tool }: Project): string[] {
  const { 'dev-dependencies': old = {}, group = {} } = tool?.poetry ?? {}
  const sets = [
    old,
    ...Object.entries(group)
      .filter(([name]) => TEST_GROUP.test(name))
      .map(([, set]) => set.dependencies),
  ]
  return sets.flatMap((set) =>
    Object.entries(set).flatMap(([name, value]) => {
      const version = typeof value === 'string' ? value : Version.safeParse(value).data?.version
      if (version === undefined || name === 'python') return []
      const plain = /^[\^~]?=?\s*(\d[\w.]*)$/.exec(version)?.[1]
      return [plain === undefined ? name : `${name}>=${plain}`]
    }),
  )
}

const Version = z.object({ version: z.string() })

/** Lists the names of the extras for tests. Only a build of the package determines their requirements. */
export function listTestExtras(tree: TreeFacts): string[] {
  const declared = Object.keys(readProject(tree)?.project?.['optional-dependencies'] ?? {})
  const script = tree.texts.get('setup.py') ?? ''
  const named = script.includes('extras_require') ? [...script.matchAll(/["']([\w-]+)["']\s*:\s*[[(]/g)] : []
  const scripted = named.map(([, name = '']) => name)
  const all = [...declared, ...listConfiguredExtras(tree.texts.get('setup.cfg') ?? ''), ...scripted]
  return [...new Set(all)].filter((name) => TEST_GROUP.test(name)).sort()
}

function listConfiguredExtras(text: string): string[] {
  const lines = text.split('\n')
  const from = lines.indexOf('[options.extras_require]')
  if (from === -1) return []
  const rest = lines.slice(from + 1)
  const end = rest.findIndex((line) => line.startsWith('['))
  return rest.slice(0, end === -1 ? rest.length : end).flatMap((line) => /^([\w-]+)\s*=/.exec(line)?.[1] ?? [])
}

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
    .filter(([, all]) => all.size === 1)
    .map(([name, [version]]) => `${name}==${version}`)
    .toSorted()
}

function readTomlLock({ texts }: TreeFacts, path: string): LockedPackage[] {
  const packages = TomlLock.safeParse(parseOrUndefined(() => parse(texts.get(path) ?? ''))).data?.package ?? []
  return packages.flatMap(({ name, version, source }) =>
    version === undefined || LOCAL_SOURCE.test(JSON.stringify(source ?? null)) ? [] : [{ name, version }],
  )
}

function readPipfileLock({ texts }: TreeFacts): LockedPackage[] {
  const lock = PipfileLock.safeParse(parseOrUndefined(() => JSON.parse(texts.get('Pipfile.lock') ?? '{}'))).data
  return Object.entries({ ...lock?.default, ...lock?.develop }).flatMap(([name, { version }]) =>
    version?.startsWith('==') ? [{ name, version: version.slice(2) }] : [],
  )
}

/** Lists the packages of a `Pipfile` by name. Its lock file, or the freeze day, selects their versions. */
export function listPipfilePackages({ texts }: TreeFacts): string[] {
  const file = PipfileSections.safeParse(parseOrUndefined(() => parse(texts.get('Pipfile') ?? ''))).data
  const names = Object.entries({ ...file?.packages, ...file?.['dev-packages'] })
  // A table without a version is a path or a repository.
  return names.flatMap(([name, value]) =>
    NAME.test(name) && (typeof value === 'string' || JSON.stringify(value).includes('"version"')) ? [name] : [],
  )
}

/** Parses untrusted text. Returns undefined if it is invalid, as if the file were missing. */
function parseOrUndefined(parseFile: () => unknown): unknown {
  try {
    return parseFile()
  } catch {
    return undefined
  }
}
