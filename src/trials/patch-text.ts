import { type Effort, unifiedDiff } from './diff.ts'

/** A file as a tree of files knows it. Links are known by where they lead. */
export type PatchFile = { kind: 'file' | 'link'; isExecutable: boolean; bytes: number; digest: string }

/** What is in a folder. What is not in it, and not below what was left out, is not there: if it is complete. */
export type PatchTree = { files: ReadonlyMap<string, PatchFile>; leftOut: readonly string[]; isComplete: boolean }

export type Change = { path: string; before: PatchFile | undefined; after: PatchFile | undefined }

/** Made of bytes, a character for each. */
export type Contents = ReadonlyMap<string, string>

/** What differs, by name. What cannot be known is not told. Files in which git keeps data are left out. */
export function changesBetween(before: PatchTree, after: PatchTree): Change[] {
  const paths = [...new Set([...before.files.keys(), ...after.files.keys()])].sort()
  return paths.flatMap((path) => {
    const change = { path, before: before.files.get(path), after: after.files.get(path) }
    if ((isInGitFolder(path) && !isGitControl(path)) || isSame(change)) return []
    const isKnown = (change.before || isAbsent(before, path)) && (change.after || isAbsent(after, path))
    return isKnown ? [change] : []
  })
}

const isInGitFolder = (path: string): boolean => path.split('/').some((part) => part.toLowerCase() === '.git')

/** Whether git reads settings from a file or executes it, or finds its folder through it. `git apply` accepts none. */
const isGitControl = (path: string): boolean =>
  /(^|\/)\.git(\/(.+\/)?(config|config\.worktree|commondir|info\/(attributes|exclude|sparse-checkout)|hooks(\/.*)?))?$/i.test(
    path,
  )

const isSame = ({ before, after }: Change): boolean =>
  before !== undefined &&
  after !== undefined &&
  before.kind === after.kind &&
  before.digest === after.digest &&
  before.isExecutable === after.isExecutable

function isAbsent({ leftOut, isComplete }: PatchTree, path: string): boolean {
  return isComplete && !leftOut.some((out) => path === out || path.startsWith(`${out}/`))
}

export type PatchCaps = { files: number; fileBytes: number; allBytes: number }

type Sorted = { shown: Change[]; large: Change[]; links: Change[] }

/** Which changes are shown, up to the caps; the rest is named. */
export function sortChanges(changes: readonly Change[], caps: PatchCaps): Sorted {
  const sorted: Sorted = { shown: [], large: [], links: [] }
  let bytes = 0
  for (const change of changes) {
    const sizes = [change.before?.bytes ?? 0, change.after?.bytes ?? 0]
    const own = Math.max(...sizes)
    const fits = own <= caps.fileBytes && bytes + own <= caps.allBytes && sorted.shown.length < caps.files
    if (change.before?.kind === 'link' || change.after?.kind === 'link') sorted.links.push(change)
    else if (!fits) sorted.large.push(change)
    else {
      sorted.shown.push(change)
      bytes += own
    }
  }
  return sorted
}

type Parts = Sorted & { before: Contents; after: Contents; leftOut: readonly string[] }

/** A patch that `git apply` takes. What is not in it is named before it, in lines that git passes over. */
export function patchText({ shown, large, links, before, after, leftOut }: Parts, effort: Effort): string {
  const isBinary = ({ path }: Change) => hasZero(before.get(path)) || hasZero(after.get(path))
  const readable = shown.filter((change) => !isBinary(change))
  const text = readable.filter(({ path }) => !isGitControl(path))
  const control = readable.filter(({ path }) => isGitControl(path))
  return [
    ...commented(
      GIT_CONTROL_TITLE,
      control.map((change) => sectionOf(change, [before.get(change.path) ?? '', after.get(change.path) ?? ''], effort)),
    ),
    ...named('Binary files, not shown', shown.filter(isBinary).map(tellChange)),
    ...named('Too large or too many, not shown', large.map(tellChange)),
    ...named('Links, not shown', links.map(tellChange)),
    ...named('Not looked at', leftOut.map(quoted)),
    ...text.map((change) => sectionOf(change, [before.get(change.path) ?? '', after.get(change.path) ?? ''], effort)),
  ].join('')
}

const GIT_CONTROL_TITLE =
  'Git settings and hooks. git apply does not accept them; settings that run programs, and hooks, do not reach the tests in modes grader, workspace and snapshot'

/** Sections as comments: git passes over every line. */
function commented(title: string, sections: readonly string[]): string[] {
  if (sections.length === 0) return []
  const lines = sections.join('').replace(/\n$/, '').split('\n')
  return [`# ${title}:\n`, ...lines.map((line) => `#   ${line}\n`)]
}

const NAMED_MAX = 200

function named(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return []
  const more = lines.length > NAMED_MAX ? [`and ${lines.length - NAMED_MAX} more`] : []
  return [`# ${title}:\n`, ...[...lines.slice(0, NAMED_MAX), ...more].map((line) => `#   ${line}\n`)]
}

function tellChange({ path, before, after }: Change): string {
  const word = before ? (after ? 'changed' : 'removed') : 'new'
  return `${quoted(path)} (${word}, ${after?.bytes ?? 0} bytes)`
}

/** As git tells a binary file. */
const LOOK = 8000
const hasZero = (content: string | undefined): boolean => content?.slice(0, LOOK).includes('\0') ?? false

function sectionOf({ path, before, after }: Change, [old, fresh]: [string, string], effort: Effort): string {
  const [a, b] = [quoted(`a/${path}`), quoted(`b/${path}`)]
  const hunks = unifiedDiff(old, fresh, effort)
  const names = `--- ${before ? a : '/dev/null'}\n+++ ${after ? b : '/dev/null'}\n`
  return `diff --git ${a} ${b}\n${modesOf(before, after)}${hunks === '' ? '' : names + hunks}`
}

function modesOf(before: PatchFile | undefined, after: PatchFile | undefined): string {
  if (!before) return `new file mode ${modeOf(after)}\n`
  if (!after) return `deleted file mode ${modeOf(before)}\n`
  return before.isExecutable === after.isExecutable ? '' : `old mode ${modeOf(before)}\nnew mode ${modeOf(after)}\n`
}

const modeOf = (file: PatchFile | undefined): string => (file?.isExecutable ? '100755' : '100644')

const PLAIN = /^[!#-[\]-~]+$/
const ESCAPES: Record<number, string> = { 9: '\\t', 10: '\\n', 13: '\\r', 34: '\\"', 92: '\\\\' }

/** As git writes names: what could be anything but a letter of it stands there as its bytes. */
function quoted(path: string): string {
  if (PLAIN.test(path)) return path
  const bytes = [...Buffer.from(path, 'utf8')].map(
    (byte) =>
      ESCAPES[byte] ?? (byte < 32 || byte > 126 ? `\\${byte.toString(8).padStart(3, '0')}` : String.fromCharCode(byte)),
  )
  return `"${bytes.join('')}"`
}
