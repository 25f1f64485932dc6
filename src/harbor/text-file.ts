import type { Report } from './report.ts'
import { type FileSource, readUpTo } from './source.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads a text file and normalises line ends as Python does. Returns undefined, with a refusal, if it is not valid
 * text.
 */
export async function readText(
  source: FileSource,
  path: string,
  bytesMax: number,
  report: Report,
): Promise<string | undefined> {
  const content = await readUpTo(source, path, bytesMax)
  if (content === undefined) {
    report.refuse(path, 'too_large', `The limit for this file is ${bytesMax} bytes.`)
    return undefined
  }
  const text = decodeUtf8(content)
  if (text === undefined) report.refuse(path, 'not_utf8', 'The file is not valid UTF-8.')
  // Some programs stop at a NUL and others do not, and PostgreSQL cannot store it.
  else if (text.includes('\0')) report.refuse(path, 'invalid_value', 'The file must not contain a NUL character.')
  return text?.replaceAll(/\r\n?/g, '\n')
}

/** Decodes UTF-8. Returns undefined for invalid bytes. */
export function decodeUtf8(content: Uint8Array): string | undefined {
  try {
    return decoder.decode(content)
  } catch {
    return undefined
  }
}
