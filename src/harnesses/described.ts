import { envOf, type Harness, HOME, requireAccess } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import type { Level, ModelAccess, Protocol } from './model-access.ts'

/** A program that a workspace brings in the images of its tasks, and how it is started. */
export type Description = {
  id: string
  name: string
  version: string
  protocols: readonly Protocol[]
  /** The levels that it can ask for, and the word that stands for each in the templates. */
  levels: Partial<Record<Level, string>>
  /** Templates, as are the values of the variables and the texts of the files. Paths are below HOME. */
  command: readonly string[]
  env: Record<string, string>
  files: readonly { path: string; text: string }[]
}

/** Where the instruction stands, besides standard input. */
const INSTRUCTION_FILE = 'instruction.md'

/** The same as a harness of ours, but that its owner answers for what it says to its model. The gateway looks at it. */
export function describedHarness(description: Description): Harness {
  const { id, name, version, protocols, levels, command, env, files } = description
  const harness: Harness = {
    ...{ id, name, version, protocols, helpers: [] },
    protocolFor: (model, level) =>
      levels[level] === undefined ? undefined : protocols.find((protocol) => model.protocols.includes(protocol)),
    plan({ instruction }, { mcpServers }, given) {
      const access = requireAccess(harness, given)
      if (mcpServers.length > 0) throw new HarnessUnfit(`${name} knows no MCP, and this task has servers of tools.`)
      const fill = filler(access, levels[access.level] ?? access.level)
      return {
        command: command.map(fill),
        env: envOf(Object.fromEntries(Object.entries(env).map(([variable, text]) => [variable, fill(text)]))),
        folders: [],
        files: [
          ...files.map(({ path, text }) => ({ path, text: fill(text) })),
          { path: INSTRUCTION_FILE, text: instruction },
        ],
        input: instruction,
      }
    },
  }
  return harness
}

/** One pass: what is put in is never looked at again. Other braces stay as they are. */
function filler({ model, baseUrl, token, protocol }: ModelAccess, level: string): (text: string) => string {
  const values: Record<string, string> = {
    ...{ model, baseUrl, token, protocol, level, home: HOME, instructionFile: `${HOME}/${INSTRUCTION_FILE}` },
  }
  return (text) =>
    text.replace(/\{([A-Za-z]+)\}/g, (whole, name: string) =>
      Object.hasOwn(values, name) ? (values[name] ?? whole) : whole,
    )
}
