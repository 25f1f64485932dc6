import { BUNDLE, NODE, type SentBundle, sentBundle } from './bundles/bundle.ts'
import { envOf, type Harness, HOME, requireAccess } from './harness.ts'
import { HarnessUnfit } from './harness-unfit.ts'
import type { Level, ModelAccess, Protocol } from './model-access.ts'
import { momentsBy, type Rule } from './output-mapping.ts'

/** A program that a workspace brings, in a bundle or in the images of its tasks, and how it is started. */
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
  bundle?: SentBundle | undefined
  /** How its output, a line of JSON each, becomes a trajectory. */
  output?: readonly Rule[] | undefined
}

/** Where the instruction stands, besides standard input. */
const INSTRUCTION_FILE = 'instruction.md'

/** The same as a harness of ours, but that its owner answers for what it says to its model. The gateway looks at it. */
export function describedHarness(description: Description): Harness {
  const { id, name, version, protocols, levels, command, env, files, bundle, output } = description
  const harness: Harness = {
    ...{ id, name, version, protocols, helpers: [] },
    ...(bundle && { bundle: sentBundle({ ...bundle, probe: bundle.probe.map(placed) }) }),
    ...(output && { moments: momentsBy(output), outputRules: output }),
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

const PLACES = { home: HOME, instructionFile: `${HOME}/${INSTRUCTION_FILE}`, bundle: BUNDLE, node: NODE }

/** What is known before there is a model. */
const placed = (text: string): string => filled(text, PLACES)

function filler({ model, baseUrl, token, protocol }: ModelAccess, level: string): (text: string) => string {
  const values = { model, baseUrl, token, protocol, level, ...PLACES }
  return (text) => filled(text, values)
}

/** One pass: what is put in is never looked at again. Other braces stay as they are. */
const filled = (text: string, values: Record<string, string>): string =>
  text.replace(/\{([A-Za-z]+)\}/g, (whole, name: string) =>
    Object.hasOwn(values, name) ? (values[name] ?? whole) : whole,
  )
