import type { TarEntry } from '../../harbor/tar-reader.ts'
import { SandboxUnavailable } from '../sandbox.ts'

/** Returns the error for a refused upload. `reason` is a verb phrase about the path, such as `is not a folder`. */
export const uploadRefused = (path: string, reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`Upload to the sandbox refused: ${JSON.stringify(path)} ${reason}.`)

/** Splits the path of an archive entry. Empty for the target folder itself. Throws if the path leaves the target. */
export function parseEntryPath({ path }: TarEntry): string[] {
  const parts = path.split('/').filter((part) => part !== '.' && part !== '')
  if (path.startsWith('/') || path.includes('\0') || parts.includes('..'))
    throw uploadRefused(path, 'is not a path inside the target')
  return parts
}
