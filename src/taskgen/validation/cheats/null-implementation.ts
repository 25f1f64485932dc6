import type { StubbedName, StubValue } from '../../../grading/languages/language.ts'
import { languages } from '../../../grading/languages/languages.ts'
import { unquotePath } from '../../candidates/quoted-path.ts'
import type { PinnedSymbol } from '../../lint/render-instruction.ts'
import type { GuardedCheat } from './guarded-cheat.ts'

/** Names that a task requires, and the solution's patch, which shows their files. */
export type TaskInterface = { pinned: readonly PinnedSymbol[]; source: string }

const CONSTANTS: readonly StubValue[] = ['nothing', 'true', 'false']

/**
 * Everything that the instruction names is there, and answers with a constant. None where nothing is named, or where no
 * stub can be written without knowing types: Rust, Java, C and C++, PHP.
 */
export function nullImplementations({ pinned, source }: TaskInterface): GuardedCheat[] {
  const names = pinned.filter(({ kind }) => kind === 'name').flatMap(parseName)
  const files = listChangedFiles(source)
  if (names.length === 0) return []
  return CONSTANTS.flatMap((constant) => {
    const text = files.map((path) => stubScript(path, names, constant)).join('')
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
function parseName({ text, signature }: PinnedSymbol): StubbedName[] {
  const name =
    text
      .split(/[.:#]+/)
      .at(-1)
      ?.replace(/\(.*$/s, '') ?? ''
  return NAME.test(name) ? [{ name, signature }] : []
}

const SAFE = /^[\w@+./ -]+$/

/** Names that a shell could misread are not worth the trouble. */
const listChangedFiles = (patch: string): string[] =>
  [...patch.matchAll(/^\+\+\+ (.+?)\t?$/gm)]
    .map(([, printed = '']) => unquotePath(printed).replace(/^b\//, ''))
    .filter((path) => SAFE.test(path) && path !== '/dev/null')

const STUBS = languages.flatMap(({ stubs }) => stubs)
const CONDITIONS = { always: 'true', has_imports: 'is_module', has_none: '! is_module' }

/** Shell that puts stubs at the end of a file, or into a new one. */
function stubScript(path: string, names: readonly StubbedName[], constant: StubValue): string {
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
