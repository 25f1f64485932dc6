import type { EnvVar, McpServer, TaskStep } from '../harbor/task.ts'
import type { Bundle } from './bundles/bundle.ts'
import type { Ask } from './conversation.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import type { JsonObject } from './json.ts'
import type { Level, ModelAccess, ModelTraits, Protocol, WireLevel } from './model-access.ts'
import type { Rule } from './output-mapping.ts'
import type { Moment } from './trajectory.ts'

/** Where everything of a harness lies in its sandbox. Nothing of a task is there, and no verifier sees it. */
export const HARNESS_FOLDER = '/assay'
/** New for each step, and the agent's own. Not below /tmp, where some programs refuse to put anything. */
export const HOME = `${HARNESS_FOLDER}/home`

/** A file of HOME, by its path there. */
type HomeFile = { path: string; text: string; mode?: number }

/** What a harness runs in the agent's sandbox. */
export type HarnessRun = {
  command: string[]
  env: EnvVar[]
  /** Folders of the task that are there while it runs, by where they appear. */
  folders: { source: string; target: string }[]
  /** Undefined: it needs no HOME of its own. */
  files?: HomeFile[]
  /** The folder of HOME in which it looks for skills. */
  skills?: string
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

/** What a harness that works from outside of the sandbox has of it, and of its model. */
export type Conversation = {
  instruction: string
  /** Runs a line with sh in the sandbox. What comes back was written by whatever ran there. No code: it took too long. */
  exec(line: string): Promise<{ output: string; code: number | null }>
  ask: Ask
  /** Writes a line into the agent's log. */
  tell(line: JsonObject): void
  /** Aborts when its time is up. */
  signal: AbortSignal
}

/**
 * What becomes of a call that names another model than the trial's. `*` stands for any text, and the first rule that fits
 * counts. `pin`: the trial's own model answers. None fits: it is refused, for the program was told to make none.
 */
export type HelperRule = { name: string; rule: 'pin' | 'refuse' }

/** A way to work on a task. Files of this folder each make one; nothing else knows their names. */
export type Harness = {
  id: string
  name: string
  /** A change that can change results is a new version. */
  version: string
  /** Those it can speak, the best first. None: it needs no model. */
  protocols: readonly Protocol[]
  /** Whether it shows what the task itself does: what goes wrong then is no agent's doing. */
  isOfTheTask?: true
  bundle?: Bundle
  helpers: readonly HelperRule[]
  /** Undefined: the program cannot say exactly this to this model. The pair is refused then; nothing is rounded. */
  protocolFor(model: ModelTraits, level: Level, wire: WireLevel): Protocol | undefined
  /** Undefined: there is nothing to run, the sandbox stays as it is. Throws HarnessUnfit. */
  plan(step: TaskStep, kit: Kit, access?: ModelAccess): HarnessRun | undefined
  /** In the place of the command that it plans: it talks to its model here, and works in the sandbox line by line. */
  converse?(conversation: Conversation): Promise<number>
  /** What a line of its output tells of its work. It is a stranger's: whatever is not understood is passed over. */
  moments?(line: JsonObject): Moment[]
  /** The rules that `moments` follows, where they are data of a workspace and not code of ours. */
  outputRules?: readonly Rule[]
}

/** Of those that need no model. */
export const noModel = {
  protocols: [],
  helpers: [],
  protocolFor: () => undefined,
} as const satisfies Partial<Harness>

export function requireAccess({ name }: Pick<Harness, 'name'>, access: ModelAccess | undefined): ModelAccess {
  if (access) return access
  throw new HarnessUnfit(`${name} needs a model, and there is none.`)
}

/** Variables with plain values. */
export const envOf = (values: Record<string, string>): EnvVar[] =>
  Object.entries(values).map(([name, value]) => ({ name, value: [value] }))
