import { stat } from 'node:fs/promises'

/** Throws unless the path is a folder. */
export async function requireFolder(path: string, expected: string): Promise<void> {
  if (!(await requirePath(path)).isDirectory()) throw new Error(`${path} is a file. Name ${expected}.`)
}

export async function requirePath(path: string) {
  const found = await stat(path).catch(() => undefined)
  if (found) return found
  throw new Error(`${path} does not exist.`)
}
