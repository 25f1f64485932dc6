import type { Dockerfile } from '../dockerfile.ts'
import type { ValueTable } from '../fields.ts'

// What rules look at, each as it is written in the task.

export type ScannedFile = { path: string; bytes: Buffer; isWhole: boolean }

export type TextFile = { path: string; text: string; isWhole: boolean }

/** A Dockerfile that is used, and the folder of the task that it is built in. */
export type UsedDockerfile = {
  path: string
  context: string
  dockerfile: Dockerfile
  text: string
  isForAgent: boolean
}

/** A compose file that is used, as it is written. */
export type UsedCompose = { path: string; folder: string; table: ValueTable }
