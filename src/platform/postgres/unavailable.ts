/** Says what was tried and why it failed, then what to do; a server of one's own is always a way out. */
export class PostgresUnavailable extends Error {
  override readonly name = 'PostgresUnavailable'

  constructor(problem: string, advice: string) {
    super(`${problem}\n${advice}, or set DATABASE_URL to a PostgreSQL server of your own.`)
  }
}

const REASONS: Record<string, { why: string; advice: string }> = {
  ENOSPC: { why: 'the disk is full', advice: 'Free some space' },
  EDQUOT: { why: 'the disk quota is used up', advice: 'Free some space' },
  EROFS: { why: 'the disk is read-only', advice: 'Choose a folder that can be written to' },
  EACCES: { why: 'permission is denied', advice: 'Start Assay as the owner of the folder' },
  EPERM: { why: 'permission is denied', advice: 'Start Assay as the owner of the folder' },
}

/** Trouble with files becomes ours; any other error is a bug and stays what it is. */
export function explain(error: unknown, folder: string): unknown {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return error
  const reason = REASONS[String(error.code)] ?? { why: error.message, advice: 'Choose another folder' }
  const place = 'path' in error ? String(error.path) : folder
  return new PostgresUnavailable(`PostgreSQL cannot use the folder ${folder}: ${reason.why} (${place}).`, reason.advice)
}
