import { createHash } from 'node:crypto'
import type { Json } from './stage.ts'

type Input = { stage: string; version: number; reads: Json }

/** The same input gives the same digest, in whatever order its fields were written. */
export const inputDigest = ({ stage, version, reads }: Input): string =>
  createHash('sha256')
    .update(JSON.stringify([stage, version, ordered(reads)]))
    .digest('hex')

function ordered(value: Json): Json {
  if (Array.isArray(value)) return value.map(ordered)
  if (typeof value !== 'object' || value === null) return value
  const names = Object.keys(value).sort()
  return Object.fromEntries(names.map((name) => [name, ordered(value[name] ?? null)]))
}

type File = { path: string; sha256: string; executable: boolean }

export const INSTRUCTION_FILE = 'instruction.md'

/** Of all files but the instruction: what is run, and not what is read. */
export const groundDigest = (files: readonly File[]): string =>
  createHash('sha256')
    .update(
      JSON.stringify(
        files
          .filter(({ path }) => path !== INSTRUCTION_FILE)
          .map(({ path, sha256, executable }) => [path, sha256, executable])
          .toSorted(([one], [other]) => (String(one) < String(other) ? -1 : 1)),
      ),
    )
    .digest('hex')
