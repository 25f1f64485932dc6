import type { Runner } from '../runners/runner.ts'
import type { TreeFacts } from '../suite.ts'
import type { EnvRecipe } from './recipe.ts'

/** A programming language as the rules for source text see it. */
export type SourceLanguage = {
  name: string
  /** File extensions in lower case, without the dot. */
  extensions: readonly string[]
  comments: 'hash' | 'slashes' | 'hash-and-slashes' | 'dashes'
  /** Meaning of an apostrophe: a string delimiter, or a character literal (or lifetime). */
  singleQuote: 'string' | 'character'
  /** Set where tests commonly are in the same file as the code they test. */
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
  /** Patterns for `.git/info/exclude`: files a build leaves in the tree and that are not committed. */
  artefacts: readonly string[]
  /** Build arguments besides the usual proxy variables. They do not stay in the image. */
  buildArgs: readonly string[]
}

export type StubValue = 'nothing' | 'true' | 'false'
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
  /** Names under which registries publish the repository. */
  packageNames(tree: TreeFacts): string[]
  /**
   * Returns a regular expression, in the syntax that JavaScript and Python share, for the absolute path of a folder that
   * holds a published copy of the package. The leak scan searches images for it. Null if no package manager keeps copies.
   */
  publishedCopy: ((packageName: string) => string) | null
  /** In the order of detection. */
  runners: readonly RunnerSetup[]
  /** Set where a new file can shadow a module of the test runner. */
  hidesModules: boolean
  /** POSIX extended regular expressions for files that configure test runners; each matches a whole file name. */
  testConfiguration: readonly string[]
  /** Empty where a stub cannot be written without knowing types. */
  stubs: readonly StubWriter[]
}

/** Escapes a package name for use in `publishedCopy`. */
export const escapePattern = (text: string): string => text.replace(/\W/gu, '\\$&')
