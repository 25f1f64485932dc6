import type { StubbedName, StubValue } from '../../../grading/languages/language.ts'
import { languages } from '../../../grading/languages/languages.ts'
import { pathOf } from '../../candidates/quoted-path.ts'
import type { PinnedSymbol } from '../../lint/render-instruction.ts'
import type { GuardedCheat } from './guarded-cheat.ts'

/** What a task asks for: names, and the files in which the solution has them. */
export type Interface = { pinned: readonly PinnedSymbol[]; source: string }

const CONSTANTS: readonly StubValue[] = ['nothing', 'true', 'false']

/**
 * Everything that the instruction names is there, and answers with a constant. None where nothing is named, or where no
 * stub can be written without knowing types: Rust, Java, C and C++, PHP.
 */
export function nullImplementations({ pinned, source }: Interface): GuardedCheat[] {
  const names = pinned.filter(({ kind }) => kind === 'name').flatMap(nameOf)
  const files = changedFiles(source)
  if (names.length === 0) return []
  return CONSTANTS.flatMap((constant) => {
    const text = files.map((path) => stubbed(path, names, constant)).join('')
    if (text === '') return []
    return [
      {
        id: `null-implementation-${constant}`,
        what: `All that is asked for is there, and answers with ${constant}.`,
        verdict: 'cheat_passes' as const,
        line: `${text}exit 0`,
      },
    ]
  })
}

const NAME = /^[A-Za-z_]\w{0,100}$/

/** The last part of a dotted name: whose it is, the file may know. */
function nameOf({ text, signature }: PinnedSymbol): StubbedName[] {
  const name =
    text
      .split(/[.:#]+/)
      .at(-1)
      ?.replace(/\(.*$/s, '') ?? ''
  return NAME.test(name) ? [{ name, signature }] : []
}

const SAFE = /^[\w@+./ -]+$/

/** Names that a shell could misread are not worth the trouble. */
const changedFiles = (patch: string): string[] =>
  [...patch.matchAll(/^\+\+\+ (.+?)\t?$/gm)]
    .map(([, printed = '']) => pathOf(printed).replace(/^b\//, ''))
    .filter((path) => SAFE.test(path) && path !== '/dev/null')

const STUBS = languages.flatMap(({ stubs }) => stubs)
const CONDITIONS = { always: 'true', has_imports: 'is_module', has_none: '! is_module' }

/** Shell that puts stubs at the end of a file, or into a new one. */
function stubbed(path: string, names: readonly StubbedName[], constant: StubValue): string {
  const parts = STUBS.filter(({ files }) => files.test(path)).map(({ write, when }) => ({
    text: write(names, constant),
    when,
  }))
  return parts
    .filter(({ text }) => text !== '')
    .map(
      ({ text, when }) => `file='${path}'
is_module() { grep -qE '^(import|export) ' "$file" 2> /dev/null || grep -q '"type": *"module"' package.json 2> /dev/null; }
if ${CONDITIONS[when]}; then mkdir -p "$(dirname "$file")"; cat >> "$file" <<'STUBS'

${text}
STUBS
fi
`,
    )
    .join('')
}
