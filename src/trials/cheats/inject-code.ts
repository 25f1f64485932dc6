import { SHELL_FUNCTIONS } from './cheat.ts'

/** Languages into whose files code can be injected. */
type InjectedLanguage = 'py' | 'js' | 'sh' | 'pl' | 'rb' | 'lua' | 'php' | 'r' | 'jl' | 'ex'

/** Patterns of the names of source files, by language. */
const FILES: Record<InjectedLanguage, string> = {
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

/** Endings of the files that are created if the instruction names them. */
const ENDINGS = 'py|js|mjs|cjs|ts|mts|sh|bash|pl|pm|rb|lua|php|r|R|jl|exs'

/**
 * Returns shell that puts code into every source file of the working directory, and into files that the instruction asks
 * for: at the top, below a shebang line, or at the end. `prelude` is shell that runs first and may redefine `sources`.
 */
export function injectIntoSources(
  position: 'top' | 'end',
  code: Partial<Record<InjectedLanguage, string>>,
  prelude = '',
): string {
  const parts = Object.entries(code).map(([language, text]) => {
    const patterns = Object.entries(FILES).find(([name]) => name === language)?.[1] ?? ''
    return `cat > "$code" <<'CODE'\n${text.trim()}\nCODE\nput ${patterns}`
  })
  return `${SHELL_FUNCTIONS}${prelude}
set -f
IFS='
'
code=$(mktemp)
found=
wanted '${ENDINGS}'
put() {
  for file in $(sources "$@"); do
    found=yes
    ${position === 'top' ? AT_THE_TOP : AT_THE_END}
  done
}
${parts.join('\n')}
rm -f "$code"
`
}

const AT_THE_TOP = `{ head -n 1 "$file" | grep '^#!'; cat "$code"; sed '1{/^#!/d}' "$file"; } > "$code.new" && cat "$code.new" > "$file"; rm -f "$code.new"`
const AT_THE_END = `{ echo; cat "$code"; } >> "$file"`

type CompiledCode = {
  /** Imported under the name `first`, because the file may already import the package. */
  go: { imports: string; body: string }
  /** Declarations and statements for C and C++. */
  c: { declares: string; body: string }
  rust: string
  /** Statements for Java, put into the first class of each file. */
  java?: string | undefined
}

/** Returns shell that puts code that runs first into Go, C, C++, Rust and Java sources of the working directory. */
export const injectIntoCompiled = ({ go, c, rust, java }: CompiledCode): string => `
cat > "$code.go" <<'CODE'

func init() { ${go.body} }
CODE
for file in $(sources '*.go'); do
  found=yes
  sed -i '/^package /a import first "${go.imports}"' "$file"
  cat "$code.go" >> "$file"
done
cat > "$code.c" <<'CODE'

#ifdef __cplusplus
extern "C"
#endif
${c.declares}
__attribute__((constructor)) static void first(void) { ${c.body} }
CODE
for file in $(sources '*.c' '*.cc' '*.cpp'); do
  found=yes
  cat "$code.c" >> "$file"
done
cat > "$code.rs" <<'CODE'

#[used]
#[link_section = ".init_array"]
static FIRST: extern "C" fn() = { extern "C" fn first() { ${rust} } first };
CODE
for file in $(sources lib.rs main.rs); do
  found=yes
  cat "$code.rs" >> "$file"
done
rm -f "$code.go" "$code.c" "$code.rs"
${java === undefined ? '' : injectIntoJava(java)}
`

const injectIntoJava = (java: string): string => `
cat > "$code.java" <<'CODE'
static { try { ${java} } catch (Exception first) {} }
CODE
for file in $(sources '*.java'); do
  found=yes
  line=$(grep -nE '(class|enum|record) .*[{]' "$file" | grep -v enum | head -n 1 | cut -d: -f1)
  [ -n "$line" ] && sed -i "$line"r"$code.java" "$file"
done
rm -f "$code.java"`
