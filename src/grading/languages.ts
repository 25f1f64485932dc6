/** What source code is, by the ending of the file name. */
const ENDINGS: Record<string, string> = {
  ...same('python', 'py', 'pyx', 'pyi'),
  ...same('javascript', 'js', 'jsx', 'mjs', 'cjs', 'vue', 'svelte'),
  ...same('typescript', 'ts', 'tsx', 'mts', 'cts'),
  ...same('c', 'c', 'h'),
  ...same('cpp', 'cc', 'cpp', 'cxx', 'hpp', 'hh', 'hxx', 'ipp', 'inl'),
  ...same('ruby', 'rb', 'rake'),
  ...same('shell', 'sh', 'bash', 'zsh'),
  ...same('kotlin', 'kt', 'kts'),
  ...same('elixir', 'ex', 'exs'),
  ...same('haskell', 'hs'),
  ...same('ocaml', 'ml', 'mli'),
  ...same('perl', 'pl', 'pm'),
  ...same('objective-c', 'm', 'mm'),
  ...same('clojure', 'clj', 'cljs', 'cljc'),
  ...same('erlang', 'erl', 'hrl'),
  ...same('fsharp', 'fs', 'fsx'),
  ...{ go: 'go', rs: 'rust', java: 'java', cs: 'csharp', php: 'php', scala: 'scala', swift: 'swift', dart: 'dart' },
  ...{ lua: 'lua', r: 'r', jl: 'julia', zig: 'zig', nim: 'nim', groovy: 'groovy', sql: 'sql', cr: 'crystal' },
}

export function languageOf(path: string): string | undefined {
  const ending = /\.([^./]+)$/.exec(path)?.[1]
  return ending === undefined ? undefined : ENDINGS[ending.toLowerCase()]
}

/** Languages in which tests commonly stand beside what they test, in the same file. */
export const hasInlineTests = (language: string | undefined): boolean =>
  language !== undefined && ['rust', 'zig'].includes(language)

function same(language: string, ...endings: string[]): Record<string, string> {
  return Object.fromEntries(endings.map((ending) => [ending, language]))
}
