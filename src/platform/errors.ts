const LENGTH_MAX = 2_000

/** Returns the message of an error. It is never empty, and both a text column and a jsonb column accept it. */
export function errorText(thrown: unknown): string {
  // Node throws an AggregateError with an empty message when no address of a host answers; its members hold the reasons.
  if (thrown instanceof AggregateError && thrown.message === '') return errorText(thrown.errors[0])
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
  return text.replaceAll('\0', '').slice(0, LENGTH_MAX).toWellFormed()
}

/** Thrown when a command names something that does not exist, or omits a required name. The CLI reports it as wrong usage. */
export class UnknownName extends Error {
  override name = 'UnknownName'
}

/** Thrown when something outside the program failed, such as a sandbox engine or a provider. A retry may succeed. */
export class Outage extends Error {
  override name = 'Outage'
}

const DISK_ADVICE: Record<string, string> = {
  ENOSPC: 'the disk is full. Free some space, or use a folder on another disk',
  EDQUOT: 'the disk quota is used up. Raise it, or use another folder',
  EACCES: 'permission denied. Change the owner of the folder, or use another one',
  EPERM: 'permission denied. Change the owner of the folder, or use another one',
  EROFS: 'the file system is read-only. Mount it for writing, or use another folder',
  // Node reports this for a new folder on a read-only disk.
  ENOENT: 'it does not exist and cannot be created; the disk may be read-only. Create it, or use another folder',
  ENOTDIR: 'a part of this path is a file. Name a folder',
  EEXIST: 'a part of this path is a file. Name a folder',
}

/** Adds advice to errors of a folder. Returns other errors unchanged. */
export function explainDisk(error: unknown, folder: string): unknown {
  const advice = DISK_ADVICE[codeOf(error)]
  return advice ? new Error(`Cannot use ${folder}: ${advice}.`, { cause: error }) : error
}

/** Returns the result of a parser, or undefined if it throws. */
export function parseOrUndefined<Result>(parse: () => Result): Result | undefined {
  try {
    return parse()
  } catch {
    return undefined
  }
}

/** Returns true if an error has one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes(codeOf(error))
}

/** Returns a handler for `.catch` that ignores errors with one of these codes and rethrows all others. */
export const ignoreCode =
  (...codes: readonly string[]) =>
  (error: unknown): undefined => {
    if (!hasCode(error, ...codes)) throw error
  }

/** Returns the code of a Node or system error, or an empty string. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
