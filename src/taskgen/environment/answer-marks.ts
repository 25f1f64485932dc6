import { createHash } from 'node:crypto'
import type { HiddenTests } from '../../grading/suite.ts'

/** Lines and blobs that would reveal the solution. */
export type AnswerMarks = { lines: string[]; blobs: string[] }

const LETTERS_MIN = 40
const LINES_MAX = 5000
/** Imports, comments and licence headers occur everywhere. */
const COMMON =
  /^(?:import\b|from\b|use\b|using\b|package\b|#|\/\/|\/?\*|--|@|require\b|(?:const|let|var)\b.*\brequire\()/
const NEW_FILE = /^index [0-9a-f]+\.\.(?!0+(?:\s|$))([0-9a-f]{40,64})/gm
const SHA256_LENGTH = 64

/** Long lines that the change or its tests bring, and whole files as they are after it. Lines of the base are taken away later. */
export function answerMarks(source: string, hidden: HiddenTests): AnswerMarks {
  const added = source.split('\n').flatMap((line) => (/^\+(?!\+\+ )/.test(line) ? [line.slice(1)] : []))
  const tests = hidden.files.flatMap(({ content }) => content.split('\n'))
  const lines = [...added, ...tests].map((line) => line.trim()).filter(isTelling)
  const changed = [...source.matchAll(NEW_FILE)].map(([, id = '']) => id)
  const format = changed[0]?.length === SHA256_LENGTH ? 'sha256' : 'sha1'
  const blobs = [...changed, ...hidden.files.map(({ content }) => blobId(content, format))]
  return { lines: [...new Set(lines)].slice(0, LINES_MAX), blobs: [...new Set(blobs)] }
}

const isTelling = (line: string): boolean => line.length >= LETTERS_MIN && !COMMON.test(line)

const blobId = (content: string, format: string): string =>
  createHash(format).update(`blob ${content.length}\0`).update(content, 'latin1').digest('hex')
