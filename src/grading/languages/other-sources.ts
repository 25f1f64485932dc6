import type { SourceLanguage, TestFileRules } from './language.ts'

const source = (name: string, extensions: string, traits: Partial<SourceLanguage> = {}): SourceLanguage => ({
  name,
  extensions: extensions.split(' '),
  comments: 'slashes',
  singleQuote: 'string',
  hasInlineTests: false,
  ...traits,
})

/** Languages that are recognised as source code, but whose tests cannot be run. */
export const OTHER_SOURCES: readonly SourceLanguage[] = [
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
