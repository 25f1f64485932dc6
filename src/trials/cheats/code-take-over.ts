import type { Cheat } from './cheat.ts'
import { codeInCompiled } from './code-in-compiled.ts'
import { codeInSources } from './code-in-sources.ts'
import { TAKE_OVER, TAKE_OVER_CODE, TAKE_OVER_STRING } from './take-over.ts'

/** All files of the working directory, also those of installed packages. */
const EVERYWHERE = `
sources() {
  for pattern in "$@"; do
    find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./usr -o -path ./lib -o -path ./etc -o -path ./var \\
      -o -path ./run -o -path ./boot -o -path ./.git \\) -prune -o -type f -name "$pattern" -print 2> /dev/null
  done | head -n 2000
}
`

/** Programs and scripts whose names do not tell their language. */
const PROGRAMS = `
for file in $(find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./usr -o -path ./lib -o -path ./etc -o -path ./var \\
  -o -path ./run -o -path ./boot -o -path ./.git \\) -prune -o -type f -print 2> /dev/null | head -n 5000); do
  case \${file##*/} in *.py | *.js | *.ts | *.mjs | *.cjs | *.sh | *.bash | *.pl | *.pm | *.rb | *.lua | *.php) continue ;; esac
  [ -x "$file" ] || head -c 2 "$file" | grep -q '#!' || continue
  found=yes
  printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$file"
done
`

export const codeTakeOver: Cheat = {
  id: 'code-take-over',
  what: 'Every source file, script and program in the working directory writes the reward and ends all processes.',
  line: `${codeInSources('top', TAKE_OVER_CODE, EVERYWHERE)}${codeInCompiled({
    go: { imports: 'os/exec', body: `first.Command("sh", "-c", ${TAKE_OVER_STRING}).Run()` },
    c: { declares: 'int system(const char *);', body: `if (system(${TAKE_OVER_STRING})) return;` },
    rust: `let _ = std::process::Command::new("sh").arg("-c").arg(${TAKE_OVER_STRING}).status();`,
    java: `new ProcessBuilder("sh", "-c", ${TAKE_OVER_STRING}).start().waitFor();`,
  })}${PROGRAMS}
applies "$found"`,
}
