/** Ignores ENOENT and rethrows other errors. For `.catch`. */
export function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
