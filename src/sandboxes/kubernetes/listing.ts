import type { FileChange } from '../sandbox.ts'

/** A file of a sandbox: its type as `find` prints it, the time of its last change in seconds, and its size. */
export type ListedFile = { type: string; changedAt: string; bytes: number }

/** Files by path. Paths are bytes in `latin1`, because names need not be UTF-8. */
export type FileListing = ReadonlyMap<string, ListedFile>

export const toListedPath = (path: string): string => Buffer.from(path).toString('latin1')
const toPath = (listed: string): string => Buffer.from(listed, 'latin1').toString()

/** Files and folders that the runtime mounts into every container. */
export const RUNTIME_PATHS = ['/dev', '/proc', '/sys', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf']

/** Compares two times as `find` prints them. Numbers would lose the last digits. */
export function isSince(changedAt: string, mark: string): boolean {
  const [second = '', fraction = ''] = changedAt.split('.')
  const [markSecond = '', markFraction = ''] = mark.split('.')
  return second === markSecond ? fraction >= markFraction : Number(second) > Number(markSecond)
}

export const FOLDER = 'd'

/**
 * Lists what differs from the image: files whose status changed since `mark`, which no program can set back, and
 * missing paths.
 */
export function* compareListings(image: FileListing, now: FileListing, mark: string): Generator<FileChange> {
  for (const [listed, file] of now) {
    const kind = toChange(image.get(listed), file, mark)
    if (kind === undefined) continue
    const path = toPath(listed)
    yield path.includes('\uFFFD') ? { path, kind, isUnreadable: true } : { path, kind }
  }
  for (const listed of image.keys()) if (!now.has(listed)) yield { path: toPath(listed), kind: 'deleted' }
}

function toChange(
  before: ListedFile | undefined,
  { type, changedAt }: ListedFile,
  mark: string,
): 'file' | 'folder' | undefined {
  if (type === FOLDER) return before?.type === FOLDER ? undefined : 'folder'
  return isSince(changedAt, mark) ? 'file' : undefined
}

/** Reports whether a path is one of these paths or lies below one. */
export const isAtOrBelow = (path: string, others: readonly string[]): boolean =>
  others.some((other) => path === other || path.startsWith(other === '/' ? '/' : `${other}/`))
