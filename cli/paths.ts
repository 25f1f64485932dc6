import { stat } from 'node:fs/promises'

/** A folder that somebody has named. */
export async function requireFolder(path: string, what: string): Promise<void> {
  if (!(await requirePath(path)).isDirectory()) throw new Error(`${path} is a file. Name ${what}.`)
}

export async function requirePath(path: string) {
  const found = await stat(path).catch(() => undefined)
  if (found) return found
  throw new Error(`There is no ${path}. Is the path right?`)
}
