import type { Cheat } from './cheat.ts'
import { codeInCompiled } from './code-in-compiled.ts'
import { codeInSources } from './code-in-sources.ts'
import { TAKE_OVER, TAKE_OVER_CODE, TAKE_OVER_STRING } from './take-over.ts'

/** All files of the working directory, also those of installed packages. */
const EVERYWHERE = `
sources() {
  for pattern in "$@"; do
    find . -xdev -path ./.git -prune -o -type f -name "$pattern" -print 2> /dev/null
  done | grep -vE "$system" | head -n 2000
}
`

/** Programs and scripts whose names do not tell their language. */
const PROGRAMS = `
for file in $(find . -xdev -path ./.git -prune -o -type f -print 2> /dev/null | grep -vE "$system" | head -n 5000); do
  case \${file##*/} in *.py | *.js | *.ts | *.mjs | *.cjs | *.sh | *.bash | *.pl | *.pm | *.rb | *.lua | *.php | *.c | *.cc | *.cpp | *.cxx | *.h | *.go | *.rs | *.java) continue ;; esac
  [ -x "$file" ] || head -c 2 "$file" | grep -q '#!' || continue
  found=yes
  printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$file"
done
`

/** Programs and compiled sources that the instruction asks for and that are not there yet. */
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
  line: `${codeInSources('top', TAKE_OVER_CODE, EVERYWHERE)}${WANTED}${codeInCompiled({
    go: { imports: 'os/exec', body: `first.Command("sh", "-c", ${TAKE_OVER_STRING}).Run()` },
    c: { declares: 'int system(const char *);', body: `if (system(${TAKE_OVER_STRING})) return;` },
    rust: `let _ = std::process::Command::new("sh").arg("-c").arg(${TAKE_OVER_STRING}).status();`,
    java: `new ProcessBuilder("sh", "-c", ${TAKE_OVER_STRING}).start().waitFor();`,
  })}${PROGRAMS}
applies "$found"`,
}
