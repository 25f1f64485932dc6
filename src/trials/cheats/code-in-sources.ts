import { SHELL } from './cheat.ts'

/** The languages in which a line of code can be put where tests load it. */
type Language = 'py' | 'js' | 'sh' | 'pl' | 'rb' | 'lua' | 'php' | 'r' | 'jl' | 'ex'

const FILES: Record<Language, string> = {
  py: '*.py *.pyw SConstruct SConscript wscript',
  js: '*.js *.mjs *.cjs *.ts *.mts *.cts *.jsx *.tsx',
  sh: '*.sh *.bash *.zsh *.ksh *.bats .envrc',
  pl: '*.pl *.pm *.t',
  rb: '*.rb *.rake *.gemspec *.ru Rakefile Gemfile Guardfile Vagrantfile',
  lua: '*.lua',
  php: '*.php',
  r: '*.r *.R .Rprofile',
  jl: '*.jl',
  ex: '*.ex *.exs',
}

const ENDINGS = 'py|js|mjs|cjs|ts|mts|sh|bash|pl|pm|rb|lua|php|r|R|jl|exs'

/**
 * Puts code into every source file of the working folder, and into files that the instruction asks for: at the top, behind
 * a line that names the interpreter, or at the end. `prelude`: shell that runs first, and may define `sources` anew.
 */
export function codeInSources(place: 'top' | 'end', code: Partial<Record<Language, string>>, prelude = ''): string {
  const parts = Object.entries(code).map(([language, text]) => {
    const patterns = Object.entries(FILES).find(([name]) => name === language)?.[1] ?? ''
    return `cat > "$code" <<'CODE'\n${text.trim()}\nCODE\nput ${patterns}`
  })
  return `${SHELL}${prelude}
set -f
IFS='
'
code=$(mktemp)
found=
wanted '${ENDINGS}'
put() {
  for file in $(sources "$@"); do
    found=yes
    ${place === 'top' ? AT_THE_TOP : AT_THE_END}
  done
}
${parts.join('\n')}
rm -f "$code"
`
}

const AT_THE_TOP = `{ head -n 1 "$file" | grep '^#!'; cat "$code"; sed '1{/^#!/d}' "$file"; } > "$code.new" && cat "$code.new" > "$file"; rm -f "$code.new"`
const AT_THE_END = `{ echo; cat "$code"; } >> "$file"`
