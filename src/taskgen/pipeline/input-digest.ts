import { createHash } from 'node:crypto'
import type { Json } from '../../harnesses/json.ts'

type StageInput = { stage: string; version: number; inputs: Json }

/** Hashes the input of a stage independently of key order. */
export const hashInput = ({ stage, version, inputs }: StageInput): string =>
  createHash('sha256')
    .update(JSON.stringify([stage, version, sortKeys(inputs)]))
    .digest('hex')

function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  const names = Object.keys(value).sort()
  return Object.fromEntries(names.map((name) => [name, sortKeys(value[name] ?? null)]))
}

type TaskFileDigest = { path: string; sha256: string; executable: boolean }

export const INSTRUCTION_FILE = 'instruction.md'

/** Hashes all files except the instruction: everything that is executed. */
export const hashExceptInstruction = (files: readonly TaskFileDigest[]): string =>
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
