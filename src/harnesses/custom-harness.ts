import { acpClientFile, acpCommand, parseAcpEvents } from './acp.ts'
import { BUNDLE, type Bundle, NODE, nodeOnlyBundle, type UploadedBundle, uploadedBundle } from './bundles/bundle.ts'
import { type Harness, HarnessUnfit, HOME, requireModelAccess, toEnv } from './harness.ts'
import type { Level, ModelAccess, Protocol } from './model-access.ts'
import { buildEventParser, type OutputRule } from './output-mapping.ts'

/** A workspace's own program, in a bundle or in the images of its tasks, and how to start it. */
export type HarnessDescription = {
  id: string
  name: string
  version: string
  protocols: readonly Protocol[]
  /** The levels that the program supports, each with the value of `{level}` in the templates. */
  levels: Partial<Record<Level, string>>
  /** Templates, like the values of `env` and the texts of `files`. Paths are relative to HOME. */
  command: readonly string[]
  env: Record<string, string>
  files: readonly { path: string; text: string }[]
  bundle?: UploadedBundle | undefined
  /** True if the command starts an agent of the Agent Client Protocol. The instruction is then its prompt. */
  acp?: true | undefined
  /** Rules that turn the program's output (JSON lines) into a trajectory. */
  output?: readonly OutputRule[] | undefined
}

/** File in HOME that contains the instruction, which is also passed on standard input. */
const INSTRUCTION_FILE = 'instruction.md'

/** Builds a harness from its description. Requested levels are the owner's responsibility; the gateway checks them. */
export function buildCustomHarness(description: HarnessDescription): Harness {
  const { id, name, version, protocols, levels, command, env, files, bundle, output, acp } = description
  const harness: Harness = {
    id,
    name,
    version,
    protocols,
    auxiliaryModels: [],
    bundle: chooseBundle(bundle, acp ?? false),
    trajectoryEvents: acp ? parseAcpEvents : output && buildEventParser(output),
    outputRules: output,
    protocolFor: (model, level) =>
      levels[level] === undefined ? undefined : protocols.find((protocol) => model.protocols.includes(protocol)),
    plan({ instruction }, { mcpServers }, optionalAccess) {
      const access = requireModelAccess(harness, optionalAccess)
      if (mcpServers.length > 0) throw new HarnessUnfit(`${name} does not support MCP, which this task requires.`)
      const fill = createTemplateFiller(access, levels[access.level] ?? access.level)
      return {
        command: acp ? acpCommand(command.map(fill)) : command.map(fill),
        env: toEnv(Object.fromEntries(Object.entries(env).map(([variable, text]) => [variable, fill(text)]))),
        folders: [],
        files: [
          ...files.map(({ path, text }) => ({ path, text: fill(text) })),
          { path: INSTRUCTION_FILE, text: instruction },
          ...(acp ? [acpClientFile()] : []),
        ],
        input: instruction,
      }
    },
  }
  return harness
}

/** Returns the bundle to install. `needsNode`: the client of an ACP agent runs with Node. */
function chooseBundle(bundle: UploadedBundle | undefined, needsNode: boolean): Bundle | undefined {
  if (!bundle) return needsNode ? nodeOnlyBundle() : undefined
  return uploadedBundle({ ...bundle, node: bundle.node || needsNode, probe: bundle.probe.map(fillPaths) })
}

const PATHS = { home: HOME, instructionFile: `${HOME}/${INSTRUCTION_FILE}`, bundle: BUNDLE, node: NODE }

/** Fills in the placeholders that do not depend on a model. */
const fillPaths = (text: string): string => fillTemplate(text, PATHS)

/** Returns the function that fills in all placeholders of a template. */
function createTemplateFiller(
  { model, baseUrl, token, protocol }: ModelAccess,
  level: string,
): (text: string) => string {
  const values = { model, baseUrl, token, protocol, level, ...PATHS }
  return (text) => fillTemplate(text, values)
}

/** Replaces placeholders in one pass: inserted values are not expanded again. Unknown placeholders stay unchanged. */
const fillTemplate = (text: string, values: Record<string, string>): string =>
  text.replace(/\{([A-Za-z]+)\}/g, (whole, name: string) =>
    Object.hasOwn(values, name) ? (values[name] ?? whole) : whole,
  )
