import { SHELL } from './cheat.ts'

/** The languages in which a line of code can be put where tests load it. */
type Language = 'py' | 'js' | 'sh' | 'pl' | 'rb'

const FILES: Record<Language, string> = {
  py: '*.py',
  js: '*.js *.mjs *.cjs *.ts *.mts',
  sh: '*.sh *.bash',
  pl: '*.pl *.pm',
  rb: '*.rb',
}

const ENDINGS = 'py|js|mjs|cjs|ts|mts|sh|bash|pl|pm|rb'

/**
 * Puts code into every source file of the working folder, and into files that the instruction asks for: at the top, behind
 * a line that names the interpreter, or at the end.
 */
export function codeInSources(place: 'top' | 'end', code: Partial<Record<Language, string>>): string {
  const parts = Object.entries(code).map(([language, text]) => {
    const patterns = Object.entries(FILES).find(([name]) => name === language)?.[1] ?? ''
    return `cat > "$code" <<'CODE'\n${text.trim()}\nCODE\nput ${patterns}`
  })
  return `${SHELL}
set -f
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
