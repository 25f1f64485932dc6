/** Thrown when the embedded PostgreSQL cannot run. The message states the problem, then each fix. DATABASE_URL is always one. */
export class PostgresUnavailable extends Error {
  override readonly name = 'PostgresUnavailable'

  constructor(problem: string, ...fixes: string[]) {
    super(`${problem}\n${fixes.join(', ')}, or set DATABASE_URL to a PostgreSQL server of your own.`)
  }
}

const FILE_ERRORS: Record<string, { reason: string; advice: string }> = {
  ENOSPC: { reason: 'the disk is full', advice: 'Free some space' },
  EDQUOT: { reason: 'the disk quota is used up', advice: 'Free some space' },
  EROFS: { reason: 'the disk is read-only', advice: 'Choose a writable folder' },
  EACCES: { reason: 'permission is denied', advice: 'Start Assay as the owner of the folder' },
  EPERM: { reason: 'permission is denied', advice: 'Start Assay as the owner of the folder' },
}

/** Converts file errors. Any other error is a bug and is returned unchanged. */
export function toUnavailable(error: unknown, folder: string): unknown {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return error
  const explanation = FILE_ERRORS[String(error.code)] ?? { reason: error.message, advice: 'Choose another folder' }
  const path = 'path' in error ? String(error.path) : folder
  return new PostgresUnavailable(
    `PostgreSQL cannot use the folder ${folder}: ${explanation.reason} (${path}).`,
    explanation.advice,
  )
}
