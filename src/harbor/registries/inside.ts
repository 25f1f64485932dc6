import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { hasCode } from '../../platform/errors.ts'

/** Resolves a relative path, following links. Returns undefined if the target is outside the root or missing. */
export async function resolveInside(root: string, path: string): Promise<string | undefined> {
  const [realRoot, target] = [await findRealPath(root), await findRealPath(join(root, path))]
  return realRoot !== undefined && target !== undefined && (target === realRoot || target.startsWith(realRoot + sep))
    ? target
    : undefined
}

const findRealPath = (path: string): Promise<string | undefined> =>
  realpath(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENAMETOOLONG', 'ERR_INVALID_ARG_VALUE'))
      return undefined
    throw error
  })
