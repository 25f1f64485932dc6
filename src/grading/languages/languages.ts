import { cpp } from './cpp.ts'
import { go } from './go.ts'
import { java } from './java.ts'
import type { LanguageEcosystem, Runner, RunnerSetup, SourceLanguage, TestFileRules } from './language.ts'
import { node } from './node.ts'
import { php } from './php.ts'
import { python } from './python.ts'
import { ruby } from './ruby.ts'
import { rust } from './rust.ts'

/** Every ecosystem for which tasks can be created. */
export const languages: readonly LanguageEcosystem[] = [python, node, go, rust, java, cpp, ruby, php]

/** Describes a language by its name and its extensions, separated by spaces. */
const toSource = (name: string, extensions: string, traits: Partial<SourceLanguage> = {}): SourceLanguage => ({
  name,
  extensions: extensions.split(' '),
  comments: 'slashes',
  singleQuote: 'string',
  hasInlineTests: false,
  ...traits,
})

/** Languages that are recognised as source code, but whose tests cannot be run: they have no ecosystem above. */
const OTHER_SOURCES: readonly SourceLanguage[] = [
  toSource('shell', 'sh bash zsh', { comments: 'hash' }),
  toSource('elixir', 'ex exs', { comments: 'hash' }),
  toSource('haskell', 'hs', { singleQuote: 'character' }),
  toSource('ocaml', 'ml mli'),
  toSource('perl', 'pl pm', { comments: 'hash' }),
  toSource('objective-c', 'm mm'),
  toSource('clojure', 'clj cljs cljc'),
  toSource('erlang', 'erl hrl'),
  toSource('fsharp', 'fs fsx'),
  toSource('csharp', 'cs', { singleQuote: 'character' }),
  toSource('scala', 'scala', { singleQuote: 'character' }),
  toSource('swift', 'swift', { singleQuote: 'character' }),
  toSource('dart', 'dart'),
  toSource('lua', 'lua', { comments: 'dashes' }),
  toSource('r', 'r', { comments: 'hash' }),
  toSource('julia', 'jl', { comments: 'hash' }),
  toSource('zig', 'zig', { singleQuote: 'character', hasInlineTests: true }),
  toSource('nim', 'nim', { comments: 'hash' }),
  toSource('groovy', 'groovy'),
  toSource('sql', 'sql', { comments: 'dashes' }),
  toSource('crystal', 'cr', { comments: 'hash' }),
]

/** Source languages by extension. Languages whose tests can be run take precedence over `OTHER_SOURCES`. */
const SOURCES = new Map(
  [...OTHER_SOURCES, ...languages.flatMap(({ sources }) => sources)].flatMap((source) =>
    source.extensions.map((extension) => [extension, source] as const),
  ),
)

/** Returns the language of a source file by its extension. */
export function findSourceLanguage(path: string): SourceLanguage | undefined {
  const extension = /\.([^./]+)$/.exec(path)?.[1]
  return extension === undefined ? undefined : SOURCES.get(extension.toLowerCase())
}

const SETUPS: readonly RunnerSetup[] = languages.flatMap(({ runners: setups }) => setups)

/** Runners in the order of detection: specific ones first, fallbacks last. */
export const runners: readonly Runner[] = SETUPS.map(({ runner }) => runner).toSorted(
  (one, other) => Number(one.isFallback) - Number(other.isFallback),
)

export const findRunner = (id: string): Runner | undefined => runners.find((runner) => runner.id === id)

export const findRunnerSetup = (id: string): RunnerSetup | undefined => SETUPS.find(({ runner }) => runner.id === id)

export const findLanguageOfRunner = (id: string): LanguageEcosystem | undefined =>
  languages.find(({ runners: setups }) => setups.some(({ runner }) => runner.id === id))

/** Names of test files in languages whose tests cannot be run. */
export const OTHER_TESTS: TestFileRules = {
  names: [
    /^test_.+\.(lua|jl)$/,
    /_tests?\.(exs?|dart|lua|sh)$/,
    /_spec\.(lua|cr)$/,
    /[a-z0-9](Test|Tests|TestCase|Spec|IT)\.(scala|groovy|cs|swift|fs)$/,
  ],
  support: [],
  extensions: ['.groovy', '.scala', '.cs', '.swift'],
}

/** Dependency files of languages whose tests cannot be run, in lower case. */
export const OTHER_DEPENDENCY_FILES: readonly string[] = [
  'flake.lock',
  'mix.lock',
  'pubspec.lock',
  'packages.lock.json',
]
