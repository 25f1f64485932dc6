import type { Bundle } from './bundles/bundle.ts'
import { type Harness, type HarnessRun, HarnessUnfit, requireModelAccess, toEnv } from './harness.ts'
import { type JsonObject, objectAt, parseArguments, textAt } from './json.ts'
import { findProtocol, type LevelMapping, type ModelAccess } from './model-access.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** A program that speaks OpenAI Chat only, has no MCP and is configured by variables and files. */
type ChatProgram = Pick<Harness, 'id' | 'name' | 'version' | 'trajectoryEvents'> & {
  bundle: Bundle
  start(access: ModelAccess, instruction: string): ProgramStart
}

type ProgramStart = {
  command: string[]
  env: Record<string, string>
  files: HarnessRun['files']
  /** Standard input. Empty if the instruction is an argument. */
  input: string
}

/** The programs do not request a reasoning effort. */
const SUPPORTED_LEVELS: LevelMapping = { 'openai-chat': { efforts: [], budgets: false, off: false, unset: true } }

export function buildChatHarness({ start, ...program }: ChatProgram): Harness {
  const harness: Harness = {
    ...program,
    protocols: ['openai-chat'],
    auxiliaryModels: [],
    protocolFor: (model, _level, wire) => findProtocol(SUPPORTED_LEVELS, harness.protocols, model, wire),
    plan({ instruction }, { mcpServers }, optionalAccess) {
      const access = requireModelAccess(harness, optionalAccess)
      if (mcpServers.length > 0)
        throw new HarnessUnfit(`${harness.name} is not configured for MCP, which this task requires.`)
      const { env, files = [], ...run } = start(access, instruction)
      return { ...run, env: toEnv(env), folders: [], files }
    },
  }
  return harness
}

/** Linux limits a single argument to 128 KiB. */
const ARGUMENT_BYTES_MAX = 128 * 1024 - 1

/** Returns the instruction for programs that take it as an argument. Throws HarnessUnfit if it is too long. */
export function requireArgument(name: string, instruction: string): string {
  if (Buffer.byteLength(instruction) <= ARGUMENT_BYTES_MAX) return instruction
  throw new HarnessUnfit(`${name} takes the instruction as an argument, which is limited to 128 KiB.`)
}

/** Converts a tool call of OpenAI Chat, which some programs print as it is. */
export function toCallEvent(call: JsonObject): TrajectoryEvent {
  const target = objectAt(call, 'function')
  const args = parseArguments(target.arguments)
  return { kind: 'call', id: textAt(call, 'id'), name: textAt(target, 'name'), arguments: args }
}
