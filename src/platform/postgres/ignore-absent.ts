/** For `.catch`: a file that is not there is an answer, any other trouble is thrown on. */
export function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
