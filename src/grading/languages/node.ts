import { coerce, intersects, satisfies, validRange } from 'semver'
import { z } from 'zod'
import type { TreeFacts } from '../suite.ts'
import {
  escapePattern,
  type LanguageEcosystem,
  type Runner,
  type RunnerSetup,
  type SourceLanguage,
  type StubbedName,
  type StubValue,
} from './language.ts'
import { jest, mocha, nodeTest, vitest } from './node-runners.ts'
import {
  completeRecipe,
  DEPS,
  type EnvRecipe,
  findFreezeDay,
  listFilesNamed,
  listPresent,
  quoteWord,
} from './recipe.ts'

const Ranges = z.record(z.string(), z.string()).optional().catch(undefined)

const PackageJson = z.object({
  name: z.string().optional().catch(undefined),
  version: z.string().optional().catch(undefined),
  packageManager: z.string().optional().catch(undefined),
  engines: z.object({ node: z.string() }).optional().catch(undefined),
  workspaces: z.unknown().optional(),
  dependencies: Ranges,
  devDependencies: Ranges,
  optionalDependencies: Ranges,
})

function readPackageJson({ texts }: TreeFacts, path = 'package.json'): z.infer<typeof PackageJson> {
  try {
    return PackageJson.parse(JSON.parse(texts.get(path) ?? '{}'))
  } catch {
    return {}
  }
}

type PackageManager = {
  /** Package that installs the manager with npm. Empty for npm itself. */
  program: string[]
  /** Installs the dependencies without running their install scripts. */
  install: string
  /** Runs install scripts of dependencies, but not those of the repository, after all files are copied. */
  rebuild: string
  /** Installs further packages. Changes of manifests are undone when the tree is copied. */
  add: string
  /** Lock files, and settings that the installation reads. Empty without a lock file. */
  lock: string[]
}

const REBUILD = 'npm rebuild --ignore-scripts=false'

/**
 * At some commits of real projects the lock file does not match package.json: every package manager keeps to the lock file
 * then and completes it.
 */
const NPM: PackageManager = {
  program: [],
  install: 'npm ci --ignore-scripts || npm install --ignore-scripts',
  rebuild: REBUILD,
  add: 'npm install --ignore-scripts --no-save --no-package-lock',
  lock: ['package-lock.json'],
}
const SHRINKWRAP: PackageManager = { ...NPM, lock: ['npm-shrinkwrap.json'] }

/** Returns npm for a tree without a lock file: versions published after the freeze day are ignored. */
function createUnlockedNpm(freezeDay: string | undefined): PackageManager {
  const before = freezeDay === undefined ? '' : ` --before=${freezeDay}`
  return {
    ...NPM,
    install: `npm install --ignore-scripts --no-package-lock${before}`,
    add: `${NPM.add}${before}`,
    lock: [],
  }
}

/**
 * Detects the package manager by its lock file. Package managers other than npm are installed into the image, so that
 * nothing is downloaded when tests run.
 */
function detectPackageManager(tree: TreeFacts): PackageManager {
  const declared = /^(pnpm|yarn|bun)@(\d+\.\d+\.\d+)\b/.exec(readPackageJson(tree).packageManager ?? '')
  const version = (manager: string): string | undefined => (declared?.[1] === manager ? declared[2] : undefined)
  if (tree.paths.has('pnpm-lock.yaml')) return createPnpm(version('pnpm') ?? '9')
  if (tree.paths.has('yarn.lock')) return createYarn(version('yarn') ?? (tree.paths.has('.yarnrc.yml') ? '4' : '1'))
  const bunLock = listPresent(tree, 'bun.lock', 'bun.lockb')
  return bunLock.length > 0 ? createBun(version('bun') ?? '1', bunLock) : createNpm(tree)
}

function createNpm(tree: TreeFacts): PackageManager {
  if (tree.paths.has('package-lock.json')) return NPM
  return tree.paths.has('npm-shrinkwrap.json') ? SHRINKWRAP : createUnlockedNpm(findFreezeDay(tree))
}

const createPnpm = (version: string): PackageManager => ({
  program: [`pnpm@${version}`],
  install: 'pnpm install --no-frozen-lockfile --ignore-scripts',
  rebuild: 'pnpm rebuild',
  add: 'pnpm add --ignore-scripts --ignore-workspace-root-check',
  lock: ['pnpm-lock.yaml', 'pnpm-workspace.yaml'],
})

/** Returns the commands of Bun, which only installs packages: tests are run by Node. `bun test` is not supported. */
const createBun = (version: string, lock: string[]): PackageManager => ({
  program: [`bun@${version}`],
  install: 'bun install --ignore-scripts',
  rebuild: REBUILD,
  add: 'bun add --ignore-scripts',
  lock: [...lock, 'bunfig.toml'],
})

/** Returns the commands of Yarn. Yarn 2 and later is a different program from Yarn 1. */
const createYarn = (version: string): PackageManager =>
  /^1\b/.test(version)
    ? {
        program: [`yarn@${version}`],
        install: 'yarn install --ignore-scripts',
        rebuild: REBUILD,
        add: 'yarn add --ignore-scripts --ignore-workspace-root-check',
        lock: ['yarn.lock'],
      }
    : {
        program: [`@yarnpkg/cli-dist@${version}`],
        install: 'yarn install --no-immutable --mode=skip-build',
        rebuild: 'yarn rebuild',
        add: 'yarn add --mode=skip-build',
        lock: ['yarn.lock', '.yarnrc.yml'],
      }

function buildRecipe(tree: TreeFacts, landed: TreeFacts | undefined, runner: string): EnvRecipe {
  const { program, install, rebuild, add, lock } = detectPackageManager(tree)
  const changed = landed === undefined ? [] : listChangedPackages(tree, landed)
  const { workspaces, engines } = readPackageJson(tree)
  const hasWorkspaces = workspaces !== undefined || tree.paths.has('pnpm-workspace.yaml')
  const packages = hasWorkspaces ? listFilesNamed(tree, /^package\.json$/) : listPresent(tree, 'package.json')
  return completeRecipe({
    runner,
    aptPackages: ['nodejs', 'npm'],
    env: {
      npm_config_cache: `${DEPS}/npm`,
      npm_config_update_notifier: 'false',
      npm_config_fund: 'false',
      npm_config_audit: 'false',
      // Node from the npm registry, unlike Debian's, does not read the certificates of the system by itself.
      NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt',
      YARN_NODE_LINKER: 'node-modules',
      YARN_ENABLE_GLOBAL_CACHE: 'false',
    },
    manifests: [...packages, ...listPresent(tree, ...lock, '.npmrc')],
    setup: [
      ...renderNodeInstall(tree, engines?.node),
      ...(packages.length === 0 ? [] : [...program.map((name) => `npm install -g ${quoteWord(name)}`), install]),
      ...(changed.length === 0 ? [] : [`${add} ${changed.map(quoteWord).join(' ')}`]),
    ],
    build: packages.length === 0 ? [] : [rebuild],
  })
}

/** Matches `name@range`. */
const PACKAGE = /^(?:@[\w.-]+\/)?[\w.-]+@[\w.^~<>=| *-]+$/

/** Lists packages that the landed manifest adds or requires in another version than the base, as `name@range`. */
function listChangedPackages(tree: TreeFacts, landed: TreeFacts): string[] {
  const before = new Set(listPackages(tree))
  return listPackages(landed).filter((each) => !before.has(each) && PACKAGE.test(each))
}

function listPackages(tree: TreeFacts): string[] {
  const { dependencies, devDependencies, optionalDependencies } = readPackageJson(tree)
  const ranges = Object.entries({ ...optionalDependencies, ...devDependencies, ...dependencies })
  return ranges.map(([name, range]) => `${name}@${range}`)
}

/** Version of Node in the base image, and its release line. */
const DEBIAN_NODE = '20.19.2'
const DEBIAN_LINE = '20'
/** Used as the freeze day of a tree without a commit, so that 22 is the newest supported line. */
const UNKNOWN_DAY = '2025-01-01'

/** Release lines of Node, newest first: a compatible npm, and the day on which long-term support begins. */
const RELEASE_LINES = [
  { line: '26', npm: 11, supportedFrom: '2026-10-20' },
  { line: '24', npm: 11, supportedFrom: '2025-10-28' },
  { line: '22', npm: 10, supportedFrom: '2024-10-29' },
  { line: '20', npm: 10, supportedFrom: '2023-10-24' },
  { line: '18', npm: 10, supportedFrom: '2022-10-25' },
  { line: '16', npm: 8, supportedFrom: '2021-10-26' },
] as const

/** Names of release lines that `.nvmrc` may contain. */
const LTS_NAMES: Readonly<Record<string, string>> = {
  'lts/hydrogen': '18',
  'lts/iron': '20',
  'lts/jod': '22',
  'lts/krypton': '24',
}

/** Maximum length of a version range. Longer ones are ignored, because the parts of a range are compared with each other. */
const RANGE_LENGTH_MAX = 500

/** Returns the shell line that installs the Node version a tree requires, from the npm registry. */
function renderNodeInstall(tree: TreeFacts, engines: string | undefined): string[] {
  const wanted = findPinnedMajor(tree) ?? parseRange(engines)
  if (!wanted) return []
  const isDebianNodeAccepted = satisfies(DEBIAN_NODE, wanted)
  const freezeDay = findFreezeDay(tree)
  if (freezeDay === undefined && isDebianNodeAccepted) return []
  const accepted = RELEASE_LINES.filter(({ line }) => intersects(wanted, line))
  // A line newer than the commit is used only if the tree requires it, and then the oldest of these.
  const release = accepted.find(({ supportedFrom }) => supportedFrom < (freezeDay ?? UNKNOWN_DAY)) ?? accepted.at(-1)
  if (!release || (isDebianNodeAccepted && release.line === DEBIAN_LINE)) return []
  // Debian's npm needs Debian's Node, so both are replaced. `hash -r` clears the shell's cached paths.
  return [`npm install -g npm@${release.npm} node-linux-$(node -p process.arch)@${release.line} && hash -r`]
}

const parseRange = (engines = '*'): string | null => validRange(engines.length > RANGE_LENGTH_MAX ? '*' : engines)

/** Returns the major version of Node that a version file names. It takes precedence over the `engines` range. */
function findPinnedMajor({ texts }: TreeFacts): string | undefined {
  const text = texts.get('.nvmrc') ?? texts.get('.node-version') ?? ''
  const declared = text.slice(0, RANGE_LENGTH_MAX).trim().toLowerCase()
  return LTS_NAMES[declared] ?? coerce(declared)?.major.toString()
}

const toResult = (value: StubValue): string => (value === 'nothing' ? 'undefined' : value)

function writeTypedModule(names: readonly StubbedName[], value: StubValue): string {
  const body = `(..._: any[]): any { return ${toResult(value)} }`
  return names.map(({ name }) => `export function ${name}${body}`).join('\n')
}

function writeModule(names: readonly StubbedName[], value: StubValue): string {
  return names.map(({ name }) => `export function ${name}() { return ${toResult(value)} }`).join('\n')
}

/** Adds exports, and methods on every exported class. */
function writeCommonJs(names: readonly StubbedName[], value: StubValue): string {
  const listed = JSON.stringify(names.map(({ name }) => name))
  return `for (const name of ${listed}) {
  const stub = () => ${toResult(value)}
  if (module.exports[name] === undefined) module.exports[name] = stub
  for (const one of [module.exports, ...Object.values(module.exports)])
    if (typeof one === 'function' && one.prototype && !(name in one.prototype)) one.prototype[name] = stub
}`
}

const SYNTAX = { comments: 'slashes', singleQuote: 'string', hasInlineTests: false } as const
const sources: SourceLanguage[] = [
  { name: 'javascript', extensions: ['js', 'jsx', 'mjs', 'cjs', 'vue', 'svelte'], ...SYNTAX },
  { name: 'typescript', extensions: ['ts', 'tsx', 'mts', 'cts'], ...SYNTAX },
]

const toRunnerSetup = (runner: Runner): RunnerSetup => ({
  runner,
  buildRecipe: (tree, landed) => buildRecipe(tree, landed, runner.id),
  artefacts: ['node_modules/'],
  buildArgs: [],
})

export const node: LanguageEcosystem = {
  id: 'node',
  sources,
  tests: {
    names: [/_tests?\.(js|ts)$/, /[._-](test|spec)s?\.[cm]?[jt]sx?$/, /^tests?\.(js|ts)$/],
    // Tests of types, which compilers run.
    support: [/[._-](test|spec)-d\.[cm]?tsx?$/],
    extensions: ['.js', '.cjs', '.mjs', '.jsx', '.ts', '.cts', '.mts', '.tsx'],
  },
  dependencyFiles: [
    'package.json',
    'package-lock.json',
    'npm-shrinkwrap.json',
    'yarn.lock',
    'pnpm-lock.yaml',
    'bun.lock',
    'bun.lockb',
  ],
  buildFiles: [
    'package.json',
    '.npmrc',
    '.yarnrc.yml',
    'pnpm-workspace.yaml',
    '.nvmrc',
    '.node-version',
    'tsconfig.json',
    'lerna.json',
  ],
  buildFilePatterns: [
    /^(?:jest|vitest|vite|babel)\.config\.[cm]?[jt]s(?:on)?$/,
    /^\.mocharc\.(?:json|jsonc|[cm]?js|ya?ml)$/,
  ],
  readTestFiles: /\.[cm]?[jt]sx?$/,
  publishedPackages: (tree) => {
    const isLocked = detectPackageManager(tree).lock.length > 0 ? true : undefined
    return listFilesNamed(tree, /^package\.json$/).flatMap((path) => {
      const { name, version } = readPackageJson(tree, path)
      return name === undefined ? [] : [{ name, version, isLocked }]
    })
  },
  publishedCopy: (name) => `/node_modules/${escapePattern(name)}$`,
  runners: [vitest, jest, mocha, nodeTest].map(toRunnerSetup),
  hidesModules: false,
  testConfiguration: ['[.]mocharc[^/]*', '(jest|vitest)[.][^/]*'],
  stubs: [
    { files: /\.(?:mts|ts|tsx)$/, when: 'always', write: writeTypedModule },
    { files: /\.mjs$/, when: 'always', write: writeModule },
    { files: /\.cjs$/, when: 'always', write: writeCommonJs },
    { files: /\.jsx?$/, when: 'has_imports', write: writeModule },
    { files: /\.jsx?$/, when: 'has_none', write: writeCommonJs },
  ],
}
