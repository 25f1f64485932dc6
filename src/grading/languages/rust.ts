import { quote } from '../../sandboxes/kernel/shell.ts'
import type { TreeFacts } from '../suite.ts'
import { escapePattern, type LanguageEcosystem, type Runner } from './language.ts'
import { completeRecipe, DEPS, type EnvRecipe, listFilesNamed, listPresent, listTextsNamed } from './recipe.ts'

/** Matches the path of an integration test: the folder of its package, and the test's name. */
const TARGET = /^(?:(?<folder>.*)\/)?tests\/(?:(?<file>[^/]+)\.rs|(?<named>[^/]+)\/main\.rs)$/

const COMMAND = 'cargo test --offline --no-fail-fast'

/** Script that tests the whole workspace. If one test target does not compile, it runs each target alone. */
const TEST_WORKSPACE = `if ${COMMAND} --workspace --no-run > /dev/null 2>&1; then ${COMMAND} --workspace; else /usr/bin/python3 -I -B "$ASSAY_TOOLS/cargo_each.py"; fi`

/** Returns the command for one test file, in the package that contains it. */
function renderTestCommand(target: string): string {
  const { folder = '.', file, named = '' } = TARGET.exec(target)?.groups ?? {}
  return `${COMMAND} --manifest-path ${quote(`${folder}/Cargo.toml`)} --test ${quote(file ?? named)}`
}

/** The stable compiler has no report format, so the printed output is parsed. The order cannot be changed. */
const cargo: Runner = {
  id: 'cargo',
  name: 'cargo test',
  report: 'libtest',
  shuffles: false,
  selects: false,
  isFallback: false,
  detect: ({ paths }) => paths.has('Cargo.toml'),
  isTarget: (path) => TARGET.test(path),
  command({ targets }) {
    const commands = targets.length === 0 ? [TEST_WORKSPACE] : [...new Set(targets.map(renderTestCommand))]
    const lines = commands.map((line) => `${line} || code=$?`)
    return `export CARGO_TERM_COLOR=never; code=0; { ${lines.join('; ')}; } > "$ASSAY_REPORT/report" 2>&1; exit $code`
  },
  prepare: [],
  exits: { passed: [0], failed: [101] },
  settings: ['Cargo.toml', 'Cargo.lock', '.cargo/', 'rust-toolchain', 'rust-toolchain.toml', 'vendor/'],
  tools: [{ name: 'cargo_each.py', file: 'cargo-each.py' }],
}

/**
 * Compiles outside of the tree. Dependencies are compiled first, in a layer that candidates share. Members of a workspace
 * that do not compile on this platform do not fail the build if the default members do.
 */
function buildRecipe(tree: TreeFacts): EnvRecipe {
  const locked = tree.paths.has('Cargo.lock') ? ' --locked' : ''
  const crates = listFilesNamed(tree, /^Cargo\.toml$/)
  const compile = `cargo test --no-run --offline${locked}`
  return completeRecipe({
    runner: cargo.id,
    aptPackages: ['cargo', 'gcc', 'libc6-dev', 'libssl-dev', 'pkg-config'],
    env: {
      CARGO_HOME: `${DEPS}/cargo`,
      CARGO_TARGET_DIR: `${DEPS}/target`,
      // Cargo prefers versions that the compiler of the image can build if there is no lock file.
      CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS: 'fallback',
    },
    manifests: [...crates, ...listPresent(tree, 'Cargo.lock', '.cargo/config', '.cargo/config.toml')],
    setup: renderDependencyBuild(tree, crates),
    build: [`cargo fetch${locked}`, `${compile} --workspace || ${compile}`],
  })
}

/** Matches the path, within its crate, of a file that Cargo compiles as a target of its own. */
const TARGET_FILE =
  /^(?:src\/(?:lib|main)\.rs|build\.rs|(?:src\/bin|tests|benches|examples)\/(?:[^/]+\.rs|[^/]+\/main\.rs))$/
/** Bounds the length of a shell line. */
const TARGETS_LENGTH_MAX = 6000

/**
 * Returns the shell line that compiles the dependencies with empty files in the place of the sources, which Cargo requires
 * to exist. Nothing of the crates themselves is kept. A failure is harmless: the build compiles everything then.
 */
function renderDependencyBuild(tree: TreeFacts, crates: readonly string[]): string[] {
  const folders = crates.map((path) => path.slice(0, -'Cargo.toml'.length))
  const named = new Set(
    crates.flatMap((path, at) =>
      [...(tree.texts.get(path) ?? '').matchAll(/^path\s*=\s*["']([\w./-]+\.rs)["']/gm)].map(
        ([, file = '']) => `${folders[at]}${file}`,
      ),
    ),
  )
  const isTarget = createTargetTest(new Set(folders))
  const targets = [...tree.paths].filter((path) => isTarget(path) || named.has(path)).sort()
  const files = targets.map(quote).join(' ')
  if (targets.length === 0 || files.length > TARGETS_LENGTH_MAX) return []
  const names = listTextsNamed(tree, /^Cargo\.toml$/).flatMap((text) => findCrateField(text, 'name') ?? [])
  const packageFlags = names.map((name) => ` -p ${quote(name)}`).join('')
  const steps = [
    `for file in ${files}; do mkdir -p "$(dirname "$file")" && echo 'fn main() {}' > "$file"; done`,
    'cargo fetch',
    'cargo test --no-run --offline --workspace',
    ...(packageFlags === '' ? [] : [`cargo clean --offline${packageFlags}`]),
  ]
  return [`(${steps.join(' && ')}) || echo 'Dependencies were not compiled beforehand.'`]
}

/** Number of names in the longest path of a target within its crate: `src/bin/name/main.rs`. */
const TARGET_DEPTH = 4

/** Returns a test for files that Cargo compiles in one of the folders of crates, which end in a slash. */
function createTargetTest(folders: ReadonlySet<string>): (path: string) => boolean {
  return (path) => {
    let start = path.length
    for (let depth = 0; depth < TARGET_DEPTH && start > 0; depth += 1) {
      start = path.lastIndexOf('/', start - 2) + 1
      if (folders.has(path.slice(0, start)) && TARGET_FILE.test(path.slice(start))) return true
    }
    return false
  }
}

const CRATE_FIELDS = { name: /^name\s*=\s*["']([\w-]+)["']/m, version: /^version\s*=\s*["'](\d[\w.+-]*)["']/m }

/** Returns a field of the table `[package]`. A version that a workspace gives its members is not known here. */
function findCrateField(text: string, field: keyof typeof CRATE_FIELDS): string | undefined {
  const start = text.indexOf('[package]')
  if (start === -1) return undefined
  const table = text.slice(start + 1).split(/^\[/m)[0] ?? ''
  return CRATE_FIELDS[field].exec(table)?.[1]
}

export const rust: LanguageEcosystem = {
  id: 'rust',
  sources: [{ name: 'rust', extensions: ['rs'], comments: 'slashes', singleQuote: 'character', hasInlineTests: true }],
  tests: { names: [/_tests?\.rs$/, /^tests?\.rs$/], support: [], extensions: ['.rs'] },
  dependencyFiles: ['cargo.toml', 'cargo.lock'],
  buildFiles: ['cargo.toml', 'rust-toolchain', 'rust-toolchain.toml'],
  buildFilePatterns: [],
  readTestFiles: null,
  publishedPackages: (tree) =>
    listTextsNamed(tree, /^Cargo\.toml$/).flatMap((text) => {
      const name = findCrateField(text, 'name')
      return name === undefined ? [] : [{ name, version: findCrateField(text, 'version') }]
    }),
  publishedCopy: (name) => `/registry/src/[^/]+/${escapePattern(name)}(?:-\\d[^/]*)?$`,
  runners: [{ runner: cargo, buildRecipe, artefacts: ['Cargo.lock'], buildArgs: [] }],
  hidesModules: false,
  testConfiguration: [],
  stubs: [],
}
