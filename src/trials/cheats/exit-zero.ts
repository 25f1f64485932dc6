import type { Cheat } from './cheat.ts'
import { codeInCompiled } from './code-in-compiled.ts'
import { codeInSources } from './code-in-sources.ts'

export const exitZero: Cheat = {
  id: 'exit-zero',
  what: 'The code leaves with success as soon as it is loaded, and takes the tests with it.',
  line: `${codeInSources('top', {
    py: 'import os; os._exit(0)',
    js: 'process.exit(0)',
    sh: 'exit 0',
    pl: 'BEGIN { exit 0 }',
    rb: 'exit!(0)',
  })}${codeInCompiled({
    go: { imports: 'os', body: 'first.Exit(0)' },
    c: { declares: 'void _exit(int);', body: '_exit(0);' },
    rust: 'std::process::exit(0)',
  })}
applies "$found"`,
}
