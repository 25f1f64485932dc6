const DISK_ADVICE: Record<string, string> = {
  ENOSPC: 'the disk is full. Free some space, or use a folder on another disk',
  EDQUOT: 'the disk quota is used up. Raise it, or use another folder',
  EACCES: 'this user may not use it. Change the owner of the folder, or use another one',
  EPERM: 'this user may not use it. Change the owner of the folder, or use another one',
  EROFS: 'the file system is read-only. Mount it for writing, or use another folder',
  // What Node reports for a new folder on a read-only disk.
  ENOENT: 'it does not exist and cannot be made; the disk may be read-only. Make it yourself, or use another folder',
  ENOTDIR: 'a part of this path is a file. Name a folder',
  EEXIST: 'a part of this path is a file. Name a folder',
}

/** Says what to do about a folder that cannot be used; any other error comes back as it was. */
export function explainDisk(error: unknown, folder: string): unknown {
  const advice = DISK_ADVICE[codeOf(error)]
  return advice ? new Error(`Cannot use ${folder}: ${advice}.`, { cause: error }) : error
}

export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes(codeOf(error))
}

/** The code that Node or the operating system gave the error, or nothing. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
