/** Ignores ENOENT and rethrows other errors. Pass it to `.catch`. */
export function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
