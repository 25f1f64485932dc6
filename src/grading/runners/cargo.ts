import { quote } from '../../sandboxes/local/shell.ts'
import type { Runner } from './runner.ts'
import { toolFile } from './tool-file.ts'

const TARGET = /^(?:(?<folder>.*)\/)?tests\/(?:(?<file>[^/]+)\.rs|(?<named>[^/]+)\/main\.rs)$/

const COMMAND = 'cargo test --offline --no-fail-fast'

/** All there are; where one does not compile, each alone. */
const ALL = `if ${COMMAND} --workspace --no-run > /dev/null 2>&1; then ${COMMAND} --workspace; else /usr/bin/python3 -I -B "$ASSAY_TOOLS/cargo_each.py"; fi`

/** The program of one test file, by the package that it belongs to. */
function one(target: string): string {
  const { folder = '.', file, named = '' } = TARGET.exec(target)?.groups ?? {}
  return `${COMMAND} --manifest-path ${quote(`${folder}/Cargo.toml`)} --test ${quote(file ?? named)}`
}

/** What its tests print is the only report that the stable compiler has. The order cannot be changed either. */
export const cargo: Runner = {
  id: 'cargo',
  name: 'cargo test',
  ecosystem: 'rust',
  report: 'libtest',
  shuffles: false,
  detect: ({ paths }) => paths.has('Cargo.toml'),
  isTarget: (path) => TARGET.test(path),
  command({ targets }) {
    const commands = targets.length === 0 ? [ALL] : [...new Set(targets.map(one))]
    const lines = commands.map((line) => `${line} || code=$?`)
    return `export CARGO_TERM_COLOR=never; code=0; { ${lines.join('; ')}; } > "$ASSAY_REPORT/report" 2>&1; exit $code`
  },
  prepare: [],
  exits: { passed: [0], failed: [101] },
  settings: ['Cargo.toml', 'Cargo.lock', '.cargo/', 'rust-toolchain', 'rust-toolchain.toml', 'vendor/'],
  tools: [toolFile('cargo-each.py', 'cargo_each.py')],
}
