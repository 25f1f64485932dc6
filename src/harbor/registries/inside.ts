import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { hasCode } from '../../platform/blobs/error-codes.ts'

/** Where a relative path leads, links followed. Undefined when it leads out of the root, or nowhere. */
export async function inside(root: string, path: string): Promise<string | undefined> {
  const [real, target] = [await find(root), await find(join(root, path))]
  return real !== undefined && target !== undefined && (target === real || target.startsWith(real + sep))
    ? target
    : undefined
}

const find = (path: string): Promise<string | undefined> =>
  realpath(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENAMETOOLONG', 'ERR_INVALID_ARG_VALUE'))
      return undefined
    throw error
  })
