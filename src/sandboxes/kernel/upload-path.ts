import type { TarEntry } from '../../harbor/tar-reader.ts'
import { SandboxUnavailable } from '../sandbox.ts'

export const refused = (path: string, why: string): SandboxUnavailable =>
  new SandboxUnavailable(`What was to be put into the sandbox was refused: ${JSON.stringify(path)} is ${why}.`)

/** None for the target itself. */
export function partsIn({ path }: TarEntry): string[] {
  const parts = path.split('/').filter((part) => part !== '.' && part !== '')
  if (path.startsWith('/') || path.includes('\0') || parts.includes('..')) throw refused(path, 'no path below it')
  return parts
}
