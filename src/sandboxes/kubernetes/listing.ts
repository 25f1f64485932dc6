import type { FileChange } from '../sandbox.ts'

/** A file of a sandbox: its type as `find` prints it, the time of its last change in seconds, and its size. */
export type ListedFile = { type: string; changedAt: string; bytes: number }

/** Files by path. Paths are bytes in `latin1`, because names need not be UTF-8. */
export type FileListing = ReadonlyMap<string, ListedFile>

export const toListedPath = (path: string): string => Buffer.from(path).toString('latin1')
const toPath = (listed: string): string => Buffer.from(listed, 'latin1').toString()

/** Stands for the bytes of a name that are not UTF-8. */
const REPLACEMENT_CHARACTER = '\uFFFD'

/** Files and folders that the runtime mounts into every container. */
export const RUNTIME_PATHS = ['/dev', '/proc', '/sys', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf']

/** Reports whether a time is not before another, both as `find` prints them. Numbers would lose the last digits. */
export function isSince(changedAt: string, startTime: string): boolean {
  const [second = '', fraction = ''] = changedAt.split('.')
  const [startSecond = '', startFraction = ''] = startTime.split('.')
  return second === startSecond ? fraction >= startFraction : Number(second) > Number(startSecond)
}

/** Type of a folder as `find` prints it. */
export const FOLDER = 'd'

/**
 * Lists what differs from the image: files whose status changed since `startTime`, which no program can set back, and
 * missing paths.
 */
export function* compareListings(image: FileListing, current: FileListing, startTime: string): Generator<FileChange> {
  for (const [listed, file] of current) {
    const kind = toChange(image.get(listed), file, startTime)
    if (kind === undefined) continue
    const path = toPath(listed)
    yield path.includes(REPLACEMENT_CHARACTER) ? { path, kind, isUnreadable: true } : { path, kind }
  }
  for (const listed of image.keys()) if (!current.has(listed)) yield { path: toPath(listed), kind: 'deleted' }
}

function toChange(
  original: ListedFile | undefined,
  { type, changedAt }: ListedFile,
  startTime: string,
): 'file' | 'folder' | undefined {
  if (type === FOLDER) return original?.type === FOLDER ? undefined : 'folder'
  return isSince(changedAt, startTime) ? 'file' : undefined
}
