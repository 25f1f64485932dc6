import type { EnvVar, Step } from '../harbor/task.ts'

/** What a harness runs in the agent's sandbox. */
export type HarnessRun = {
  command: string[]
  env: EnvVar[]
  /** Folders of the task that are there while it runs, by where they appear. */
  folders: { source: string; target: string }[]
  input: string
}

/** A way to work on a task. Files of this folder each make one; nothing else knows their names. */
export type Harness = {
  id: string
  /** Whether it talks to a model, and so needs the gateway. */
  needsModel: boolean
  /** Undefined: there is nothing to run, the sandbox stays as it is. */
  plan(step: Step, solutionEnv: EnvVar[]): HarnessRun | undefined
}
