import type { EnvVar, McpServer, TaskStep } from '../harbor/task.ts'
import type { Bundle } from './bundles/bundle.ts'
import type { AskModel } from './conversation.ts'
import type { JsonObject } from './json.ts'
import type { Level, ModelAccess, ModelTraits, Protocol, WireLevel } from './model-access.ts'
import type { OutputRule } from './output-mapping.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** Folder of the harness in its sandbox. Contains nothing of the task and does not exist for the verifier. */
export const HARNESS_FOLDER = '/assay'
/** The agent's home folder, new for each step. Not below /tmp, where some programs refuse to write. */
export const HOME = `${HARNESS_FOLDER}/home`

/** A file in HOME. `path` is relative to HOME. */
type HomeFile = { path: string; text: string; mode?: number }

/** A command that a harness runs in the agent's sandbox. */
export type HarnessRun = {
  command: string[]
  env: EnvVar[]
  /** Folders of the task that are mounted while the command runs. */
  folders: { source: string; target: string }[]
  /** Files to create in HOME. If undefined, the command gets no HOME of its own. */
  files?: HomeFile[]
  /** The folder in HOME where the program looks for skills. */
  skills?: string
  /** Standard input of the command. */
  input: string
}

/** An MCP server of the task, with resolved header values. */
export type ToolServer =
  | Extract<McpServer, { transport: 'stdio' }>
  | (Omit<Exclude<McpServer, { transport: 'stdio' }>, 'headers'> & { headers: Record<string, string> })

/** The parts of a task that an agent can use in every step. */
export type TaskResources = {
  solutionEnv: EnvVar[]
  mcpServers: ToolServer[]
  /** Path in the sandbox. */
  skillsDir: string | null
}

/** Access to the sandbox and the model for a harness that runs outside the sandbox. */
export type HarnessConversation = {
  instruction: string
  /** Runs a line with sh in the sandbox. The output is untrusted. `code` is null after a timeout. */
  exec(line: string): Promise<{ output: string; code: number | null }>
  ask: AskModel
  /** Writes a line to the agent's log. */
  emit(line: JsonObject): void
  /** Aborts when the agent's time is up. */
  signal: AbortSignal
}

/**
 * Handling of calls to an auxiliary model. `name` may contain `*` wildcards, and the first matching rule applies. `pin`: the
 * trial's model answers. Calls that match no rule are refused, because the program is configured to use one model only.
 */
export type AuxiliaryModelRule = { name: string; rule: 'pin' | 'refuse' }

/** An argument of the form `flag=value` that a configuration may add to a program. `example` is shown to people. */
type ArgumentRule = { flag: string; value: RegExp; example: string }

/** A program that works on tasks. Each harness is one file in this folder; no other code refers to it by name. */
export type Harness = {
  id: string
  name: string
  /** Must change with every change that can affect results. */
  version: string
  /** Supported protocols, preferred first. Empty if the harness needs no model. */
  protocols: readonly Protocol[]
  /** True for the reference solution and the no-op: their failures are caused by the task, not by an agent. */
  isControl?: boolean
  bundle?: Bundle | undefined
  /** Rules for calls to models other than that of the trial. */
  auxiliaryModels: readonly AuxiliaryModelRule[]
  /** True if the program can use MCP servers (stdio, HTTP). Otherwise `plan` throws HarnessUnfit for a task with one. */
  supportsMcp?: true
  /** Arguments that a configuration may add. Others could change the model, the tools or the network. */
  allowedArguments?: readonly ArgumentRule[]
  /** Returns the protocol in which the program can request exactly this level, or undefined. Levels are never rounded. */
  protocolFor(model: ModelTraits, level: Level, wire: WireLevel): Protocol | undefined
  /** Returns the command for a step, or undefined if there is nothing to run. Throws HarnessUnfit. */
  plan(step: TaskStep, resources: TaskResources, access?: ModelAccess): HarnessRun | undefined
  /** Replaces the planned command: runs the agent loop in this process. Returns an exit code. */
  converse?(conversation: HarnessConversation): Promise<number>
  /** Parses a line of the program's output. The output is untrusted; unknown lines yield no events. */
  trajectoryEvents?: ((line: JsonObject) => TrajectoryEvent[]) | undefined
  /** The rules behind `trajectoryEvents`, for a custom harness. */
  outputRules?: readonly OutputRule[] | undefined
}

/** Fields of a harness that needs no model. */
export const noModel = {
  protocols: [],
  auxiliaryModels: [],
  protocolFor: () => undefined,
} as const satisfies Partial<Harness>

/** Returns the access to the model. Throws HarnessUnfit if there is none. */
export function requireModelAccess({ name }: Pick<Harness, 'name'>, access: ModelAccess | undefined): ModelAccess {
  if (access) return access
  throw new HarnessUnfit(`${name} needs a model, but none was given.`)
}

/** Converts plain values to environment variables. */
export const toEnv = (values: Record<string, string>): EnvVar[] =>
  Object.entries(values).map(([name, value]) => ({ name, value: [value] }))

/** Thrown when a harness is not available on this machine or does not support the task, before anything is spent. */
export class HarnessUnfit extends Error {
  override name = 'HarnessUnfit'
}
