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

const source = (name: string, extensions: string, traits: Partial<SourceLanguage> = {}): SourceLanguage => ({
  name,
  extensions: extensions.split(' '),
  comments: 'slashes',
  singleQuote: 'string',
  hasInlineTests: false,
  ...traits,
})

/** Languages that are recognised as source code, but whose tests cannot be run. Delete the row of one that gets an ecosystem. */
const OTHER_SOURCES: readonly SourceLanguage[] = [
  source('shell', 'sh bash zsh', { comments: 'hash' }),
  source('elixir', 'ex exs', { comments: 'hash' }),
  source('haskell', 'hs', { singleQuote: 'character' }),
  source('ocaml', 'ml mli'),
  source('perl', 'pl pm', { comments: 'hash' }),
  source('objective-c', 'm mm'),
  source('clojure', 'clj cljs cljc'),
  source('erlang', 'erl hrl'),
  source('fsharp', 'fs fsx'),
  source('csharp', 'cs', { singleQuote: 'character' }),
  source('scala', 'scala', { singleQuote: 'character' }),
  source('swift', 'swift', { singleQuote: 'character' }),
  source('dart', 'dart'),
  source('lua', 'lua', { comments: 'dashes' }),
  source('r', 'r', { comments: 'hash' }),
  source('julia', 'jl', { comments: 'hash' }),
  source('zig', 'zig', { singleQuote: 'character', hasInlineTests: true }),
  source('nim', 'nim', { comments: 'hash' }),
  source('groovy', 'groovy'),
  source('sql', 'sql', { comments: 'dashes' }),
  source('crystal', 'cr', { comments: 'hash' }),
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

export const OTHER_DEPENDENCY_FILES: readonly string[] = [
  'flake.lock',
  'mix.lock',
  'pubspec.lock',
  'packages.lock.json',
]
