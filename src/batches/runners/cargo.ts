import { quote } from '../../sandboxes/local/shell.ts'
import type { Runner } from './runner.ts'

const TARGET = /^(?:(?<folder>.*)\/)?tests\/(?:(?<file>[^/]+)\.rs|(?<named>[^/]+)\/main\.rs)$/

/** Programs of tests by the package that they belong to: its folder, and their names. */
function byPackage(targets: readonly string[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const target of targets) {
    const { folder = '.', file, named } = TARGET.exec(target)?.groups ?? {}
    const name = file ?? named
    if (name !== undefined) found.set(folder, (found.get(folder) ?? new Set()).add(name))
  }
  return found
}

const COMMAND = 'cargo test --offline --no-fail-fast'

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
    const commands = [...byPackage(targets)].map(([folder, names]) => {
      const words = [...names].map((name) => ` --test ${quote(name)}`).join('')
      return `${COMMAND} --manifest-path ${quote(`${folder}/Cargo.toml`)}${words}`
    })
    const lines = (commands.length === 0 ? [`${COMMAND} --workspace`] : commands).map((line) => `${line} || code=$?`)
    return `export CARGO_TERM_COLOR=never; code=0; { ${lines.join('; ')}; } > "$ASSAY_REPORT/report" 2>&1; exit $code`
  },
  prepare: [],
  exits: { passed: [0], failed: [101] },
  settings: ['Cargo.toml', 'Cargo.lock', '.cargo/', 'rust-toolchain', 'rust-toolchain.toml', 'vendor/'],
  tools: [],
}
