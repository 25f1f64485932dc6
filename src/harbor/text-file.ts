import type { Report } from './report.ts'
import { contentOf, type FileSource } from './source.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of a file with line ends as Python reads them. Undefined when it is none, and the report says why. */
export async function readText(
  source: FileSource,
  path: string,
  bytesMax: number,
  report: Report,
): Promise<string | undefined> {
  const content = await contentOf(source, path, bytesMax)
  if (content === undefined) {
    report.refuse(path, 'too_large', `This file has ${bytesMax} bytes at most.`)
    return undefined
  }
  const text = decoded(content)
  if (text === undefined) report.refuse(path, 'not_utf8', 'This file is no UTF-8 text.')
  // Programs read on after it or stop there, each as it likes, and no database keeps it.
  else if (text.includes('\0')) report.refuse(path, 'invalid_value', 'A text has no NUL character.')
  return text?.replaceAll(/\r\n?/g, '\n')
}

/** Undefined when the bytes are no UTF-8. */
export function decoded(content: Uint8Array): string | undefined {
  try {
    return decoder.decode(content)
  } catch {
    return undefined
  }
}
