import type { Dockerfile } from '../dockerfile.ts'
import type { ValueTable } from '../fields.ts'

// Uninterpreted parts of a task that rules examine.

export type ScannedFile = { path: string; bytes: Buffer; isWhole: boolean }

export type TextFile = { path: string; text: string; isWhole: boolean }

/** A Dockerfile that is used, and its build context in the task. */
export type UsedDockerfile = {
  path: string
  context: string
  dockerfile: Dockerfile
  text: string
  isForAgent: boolean
}

/** A compose file that is used. */
export type UsedCompose = { path: string; folder: string; table: ValueTable }

/** Returns the line number of an offset, starting at 1. */
export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let end = text.indexOf('\n'); end >= 0 && end < offset; end = text.indexOf('\n', end + 1)) line++
  return line
}
