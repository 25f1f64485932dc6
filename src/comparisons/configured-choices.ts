import { findCustomHarness } from '../catalog/custom-harnesses/custom-harnesses.ts'
import { type ConfigurationDeps, findConfiguration } from '../configurations/configurations.ts'
import type { Configuration } from '../configurations/schema.ts'
import { contentStore, readContentFile } from '../contents/contents.ts'
import { readAgentNetworks } from '../harbor/agent-networks.ts'
import { CONFIG_FILE } from '../harbor/config.ts'
import type { Network } from '../harbor/task.ts'
import type { Harness } from '../harnesses/harness.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { covers } from '../platform/outbound/allowed-hosts.ts'
import type { FieldError } from '../platform/problem.ts'
import type { ModelChoice } from './shapes/schema.ts'

/** The configuration of a model choice, or errors if it does not exist. */
export type ChosenConfiguration = { configuration: Configuration | undefined; errors: FieldError[] }

/** Finds the configuration of a choice. A reference without a version means the newest version. */
export async function findChosenConfiguration(
  deps: ConfigurationDeps,
  workspaceId: string,
  { configuration: reference }: ModelChoice,
  index: number,
): Promise<ChosenConfiguration> {
  if (reference === undefined) return { configuration: undefined, errors: [] }
  const configuration = await findConfiguration(deps, workspaceId, reference)
  if (configuration) return { configuration, errors: [] }
  const message = `Unknown configuration ${reference}. Create it first: assay configurations create`
  return {
    configuration,
    errors: [{ pointer: `/models/${index}/configuration`, code: 'unknown_configuration', message }],
  }
}

/** Returns the harness in the version that the configuration requires. Undefined if it is not available. */
export async function findPinnedHarness(
  db: Db,
  workspaceId: string,
  harness: Harness,
  configuration: Configuration | undefined,
): Promise<Harness | undefined> {
  const version = configuration?.harnesses[harness.id]?.version
  if (version === undefined || version === harness.version) return harness
  return findCustomHarness(db, workspaceId, harness.id, version)
}

/** Lists the reasons why a harness cannot use a configuration. */
export function listMisfits(
  harness: Harness,
  pinned: Harness | undefined,
  configuration: Configuration,
  pointer: string,
): FieldError[] {
  if (harness.isControl)
    return [{ pointer, code: 'configuration_unusable', message: `${harness.name} runs no agent to configure.` }]
  const { version } = configuration.harnesses[harness.id] ?? {}
  const errors: FieldError[] = []
  if (!pinned) {
    const message = `The configuration requires ${harness.id} ${version}; this server has ${harness.version}.`
    errors.push({ pointer, code: 'harness_version_unavailable', message })
  }
  if (configuration.mcpServers.length > 0 && !harness.supportsMcp)
    errors.push({
      pointer,
      code: 'mcp_unsupported',
      message: `${harness.name} does not support MCP servers, which the configuration adds.`,
    })
  return errors
}

/** Lists MCP servers that the network policy of a task does not allow. Each server is reported with the first such task. */
export async function listForbiddenServers(
  deps: ConfigurationDeps,
  chosen: readonly (Configuration | undefined)[],
  digests: () => readonly string[],
): Promise<FieldError[]> {
  const wanted = chosen.flatMap((configuration, index) =>
    (configuration?.mcpServers ?? []).flatMap((server) =>
      'url' in server ? [{ index, name: server.name, host: new URL(server.url).hostname }] : [],
    ),
  )
  if (wanted.length === 0) return []
  const errors = new Map<string, FieldError>()
  for await (const { digest, networks } of readNetworks(deps, digests()))
    for (const { index, name, host } of wanted) {
      const refusing = networks.find((network) => !allows(network, host))
      if (!refusing || errors.has(`${index} ${name}`)) continue
      const message = `The network policy of task ${digest} does not allow the MCP server ${name} at ${host}: ${describeNetwork(refusing)}.`
      errors.set(`${index} ${name}`, {
        pointer: `/models/${index}/configuration`,
        code: 'mcp_server_not_allowed',
        message,
      })
    }
  return [...errors.values()]
}

/** Reads the networks that tasks declare for their agents. Tasks that are not stored are left out. */
async function* readNetworks(deps: ConfigurationDeps, digests: readonly string[]) {
  const stored = await contentStore(deps).find([...new Set(digests)].filter(isDigest))
  for (const { digest, archive } of stored.values()) {
    const chunks: Buffer[] = []
    for await (const chunk of readContentFile(deps.blobs, archive, CONFIG_FILE)) chunks.push(chunk)
    yield { digest, networks: readAgentNetworks(Buffer.concat(chunks).toString('utf8')) ?? [] }
  }
}

const allows = ({ mode, hosts }: Network, host: string): boolean =>
  mode === 'public' || (mode === 'allowlist' && hosts.some((entry) => covers(entry, host)))

function describeNetwork({ mode, hosts }: Network): string {
  if (mode === 'allowlist') return `it allows ${hosts.length === 0 ? 'no host' : hosts.join(', ')}`
  return mode === 'unsaid' ? 'it declares no network' : 'it forbids the network'
}
