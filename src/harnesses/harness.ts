import type { EnvVar, McpServer, Step } from '../harbor/task.ts'

/** What a harness runs in the agent's sandbox. */
export type HarnessRun = {
  command: string[]
  env: EnvVar[]
  /** Folders of the task that are there while it runs, by where they appear. */
  folders: { source: string; target: string }[]
  input: string
}

/** A server of tools that the task offers, with the values that its headers asked for. */
export type ToolServer =
  | Extract<McpServer, { transport: 'stdio' }>
  | (Omit<Exclude<McpServer, { transport: 'stdio' }>, 'headers'> & { headers: Record<string, string> })

/** What a task has for whoever works on it, besides its steps. */
export type Kit = {
  solutionEnv: EnvVar[]
  mcpServers: ToolServer[]
  /** A folder of the sandbox. */
  skillsDir: string | null
}

/** A way to work on a task. Files of this folder each make one; nothing else knows their names. */
export type Harness = {
  id: string
  /** Whether it talks to a model, and so needs the gateway. */
  needsModel: boolean
  /** Whether it shows what the task itself does: what goes wrong then is no agent's doing. */
  isOfTheTask?: true
  /** Undefined: there is nothing to run, the sandbox stays as it is. */
  plan(step: Step, kit: Kit): HarnessRun | undefined
}
