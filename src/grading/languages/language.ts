import { quote } from '../../sandboxes/kernel/shell.ts'
import type { TreeFacts } from '../suite.ts'
import type { EnvRecipe } from './recipe.ts'

/** Syntax of a programming language, as far as the rules for source text need it. */
export type SourceLanguage = {
  name: string
  /** File extensions in lower case, without the dot. */
  extensions: readonly string[]
  comments: 'hash' | 'slashes' | 'hash-and-slashes' | 'dashes'
  /** Meaning of an apostrophe: a string delimiter, or a character literal (or lifetime). */
  singleQuote: 'string' | 'character'
  /** True if tests are commonly in the same file as the code that they test. */
  hasInlineTests: boolean
}

/** File names that mark tests, as regular expressions on the name without its folder. */
export type TestFileRules = {
  names: readonly RegExp[]
  /** Files that tests load although no test is in them. */
  support: readonly RegExp[]
  /** Extensions of files that contain test code, with the dot. Other files in test folders are test data. */
  extensions: readonly string[]
}

/** A test runner and the way an image is prepared for it. */
export type RunnerSetup = {
  runner: Runner
  /**
   * Returns the recipe of the base tree. `landed` is the tree after the change: dependencies that its manifests add or
   * change are installed as well, because no run applies the manifests themselves.
   */
  buildRecipe(tree: TreeFacts, landed?: TreeFacts): EnvRecipe
  /**
   * Returns a second recipe, with an older version of the runtime, if the tree is older than the one of `buildRecipe`. It is
   * tried if the tests cannot be run with the first one.
   */
  buildOlderRecipe?: ((tree: TreeFacts, landed?: TreeFacts) => EnvRecipe | undefined) | undefined
  /** Patterns for `.git/info/exclude`: files a build leaves in the tree and that are not committed. */
  artefacts: readonly string[]
  /** Build arguments besides the usual proxy variables. They do not stay in the image. */
  buildArgs: readonly string[]
}

/** Value that a stub returns. `nothing`: the empty value of the language. */
export type StubValue = 'nothing' | 'true' | 'false'
/** A function or method to be stubbed. `signature`: the line that declares it, if it is known. */
export type StubbedName = { name: string; signature: string | null }

/** Writes definitions that return a constant, to be appended to a file. Existing definitions keep their meaning. */
type StubWriter = {
  files: RegExp
  /** Restricts the writer to JavaScript files that are ES modules, or that are not. */
  when: 'always' | 'has_imports' | 'has_none'
  /** Returns an empty string where no stub can be written. */
  write(names: readonly StubbedName[], value: StubValue): string
}

/**
 * A package that registries publish from the repository. `version`: the one that the manifest of the tree states.
 * `isLocked`: a lock file selects the installed copies, so that a copy of the same version is older than the tree.
 */
export type PublishedPackage = { name: string; version?: string | undefined; isLocked?: boolean | undefined }

/**
 * Everything that depends on a language ecosystem. A new ecosystem is one file with such a value, one line in
 * `languages.ts`, and a reader in `files/reports.py` if its runner has a report format of its own.
 */
export type LanguageEcosystem = {
  /** Prefix of package names in the leak scan: `python:requests`. */
  id: string
  sources: readonly SourceLanguage[]
  tests: TestFileRules
  /** Manifests and lock files, names in lower case. A change of these alone is a dependency update. */
  dependencyFiles: readonly string[]
  /** Files whose text is read to detect the runner and the recipe, names in lower case. */
  buildFiles: readonly string[]
  buildFilePatterns: readonly RegExp[]
  /** Test files whose text is read to detect the runner. Null where their names suffice. */
  readTestFiles: RegExp | null
  /** Lists the packages that registries publish from the repository. */
  publishedPackages(tree: TreeFacts): PublishedPackage[]
  /**
   * Returns a regular expression, in the syntax that JavaScript and Python share, for the absolute path of a folder that
   * holds a published copy of the package. The leak scan searches images for it. Null if no package manager keeps copies.
   * The version of a copy is at the end of its path, in its `package.json`, or the name of a folder in it.
   */
  publishedCopy: ((packageName: string) => string) | null
  /** In the order of detection. */
  runners: readonly RunnerSetup[]
  /** True if a new file can shadow a module of the test runner. */
  hidesModules: boolean
  /** POSIX extended regular expressions for files that configure test runners; each matches a whole file name. */
  testConfiguration: readonly string[]
  /** Empty where a stub cannot be written without knowing types. */
  stubs: readonly StubWriter[]
}

/** Escapes a package name for use in `publishedCopy`. */
export const escapePattern = (text: string): string => text.replace(/\W/gu, '\\$&')

type CommandOptions = {
  /** Test files, relative to the repository. Empty: all. */
  targets: readonly string[]
  /** Null keeps the runner's own order. */
  seed: number | null
  /**
   * Ids of the only tests to run, which are also in the file `SELECTED_TESTS`. Null for all tests of the targets. Ignored
   * by runners without `selects`.
   */
  only?: readonly string[] | null
}

/** Name of the JSON file in `$ASSAY_TOOLS` that lists the ids of `only`. */
export const SELECTED_TESTS = 'selected-tests.json'

export type Runner = {
  id: string
  name: string
  /** Format of the report in `$ASSAY_REPORT`: a key of `READERS` in `files/reports.py`. One file, except for `junit-files`. */
  report: string
  /** True if `seed` has an effect. */
  shuffles: boolean
  /** True if `only` has an effect. */
  selects: boolean
  /** True if it is tried after all other runners, because its `detect` also accepts projects that use another one. */
  isFallback: boolean
  detect(tree: TreeFacts): boolean
  /** Returns true for a test file that can be named on the command line of the runner. */
  isTarget(path: string): boolean
  /**
   * Returns a shell command that an unprivileged user runs in the repository. It writes the report to `$ASSAY_REPORT`.
   */
  command(options: CommandOptions): string
  /** Commands that rebuild after a file change, offline. */
  prepare: readonly string[]
  /** Exit codes for success and for failed tests. With any other code the report is discarded. */
  exits: { passed: readonly number[]; failed: readonly number[] }
  /**
   * Names of files that configure the runner, as fnmatch patterns; folders end with a slash. A submission cannot change
   * them.
   */
  settings: readonly string[]
  /** Programs available to the command in `$ASSAY_TOOLS`. */
  tools: readonly ToolFile[]
}

/** A file of `languages/files/`, and the name under which the command finds it. */
export type ToolFile = { name: string; file: string }

/** Exit codes of most runners. */
export const USUAL_EXITS = { passed: [0], failed: [1] } as const

/** Renders quoted paths for a shell command, each after a space. A path that begins with a dash is not read as an option. */
export const renderPaths = (paths: readonly string[]): string =>
  paths.map((path) => ` ${quote(path.startsWith('-') ? `./${path}` : path)}`).join('')

/** Returns true if the tree has a file whose path passes the test. */
export const hasFile = ({ paths }: TreeFacts, test: (path: string) => boolean): boolean => {
  for (const path of paths) if (test(path)) return true
  return false
}

/** Returns true if the text of a file was read and matches. */
export const mentions = ({ texts }: TreeFacts, path: string, pattern: RegExp): boolean =>
  pattern.test(texts.get(path) ?? '')
