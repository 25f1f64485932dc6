import {
  canDrive,
  findCustomHarness,
  isCustomHarness,
  listHarnesses,
  listLevelsByHarness,
} from '../catalog/harnesses.ts'
import { findModelLevel, type Model } from '../catalog/model.ts'
import { findModel } from '../catalog/models.ts'
import { findSandboxChoice } from '../catalog/sandboxes.ts'
import { type ConfigurationDeps, findConfiguration } from '../configurations/configurations.ts'
import type { Configuration } from '../configurations/schema.ts'
import { contentStore, readContentFile } from '../contents/contents.ts'
import { type CredentialDeps, findCredential } from '../credentials/credentials.ts'
import type { Credential } from '../credentials/schema.ts'
import { CONFIG_FILE, readAgentNetworks } from '../harbor/config.ts'
import type { Network } from '../harbor/task.ts'
import type { Harness } from '../harnesses/harness.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { coversHost } from '../platform/outbound/url-rules.ts'
import { type FieldError, invalidRequest, Problem } from '../platform/problem.ts'
import { type ModelChoice, type NewComparison, TRIALS_MAX } from './shapes/schema.ts'
import type { NewSetting } from './sql.ts'

const toFieldError = (pointer: string, code: string, message: string): FieldError => ({ pointer, code, message })

/** Throws `invalidRequest` with all errors of the request. */
export function rejectRequest(errors: FieldError[]): never {
  const [first] = errors
  throw new Problem(
    invalidRequest,
    first ? `${first.pointer}: ${first.message}` : 'The comparison request is invalid.',
    { errors },
  )
}

/**
 * Returns the settings that the model choices describe, in their order. Throws a problem that lists every mistake.
 * `listTaskDigests` is called only if a configuration has MCP servers, which the network policies of the tasks must allow.
 */
export async function resolveSettings(
  deps: ConfigurationDeps,
  workspaceId: string,
  models: readonly ModelChoice[],
  listTaskDigests: () => readonly string[],
): Promise<NewSetting[]> {
  const errors: FieldError[] = []
  const settings: NewSetting[] = []
  const configurations: (Configuration | undefined)[] = []
  const harnesses = await listHarnesses(deps.db, workspaceId)
  for (const [index, choice] of models.entries()) {
    const model = await findModel(deps.db, workspaceId, choice.catalogId)
    const { configuration, errors: configurationErrors } = await resolveChosenConfiguration(
      deps,
      workspaceId,
      choice,
      index,
    )
    configurations.push(configuration)
    errors.push(...configurationErrors)
    if (!model)
      errors.push(toFieldError(`/models/${index}/catalogId`, 'unknown_model', 'The catalog has no model with this id.'))
    else if (configurationErrors.length === 0) {
      const pinned = await pinHarnesses(deps, workspaceId, harnesses, configuration)
      const resolved = { harnesses, pinned, model, choice, configuration, index }
      errors.push(...listLevelErrors(model, choice, index), ...addSettings(settings, resolved))
    }
  }
  errors.push(...(await listMcpServerErrors(deps, configurations, listTaskDigests)))
  return errors.length > 0 ? rejectRequest(errors) : settings
}

/** Returns the harnesses in the versions that the configuration requires. Harnesses without that version are left out. */
async function pinHarnesses(
  { db }: ConfigurationDeps,
  workspaceId: string,
  harnesses: readonly Harness[],
  configuration: Configuration | undefined,
): Promise<Harness[]> {
  const pinned: Harness[] = []
  for (const harness of harnesses) {
    const version = await findPinnedHarness(db, workspaceId, harness, configuration)
    if (version) pinned.push(version)
  }
  return pinned
}

function listLevelErrors(model: Model, { reasoningLevel }: ModelChoice, index: number): FieldError[] {
  if (reasoningLevel === undefined || findModelLevel(model, reasoningLevel)) return []
  const message = `This model has the levels ${model.levels.map(({ level }) => level).join(', ')}.`
  return [toFieldError(`/models/${index}/reasoningLevel`, 'unknown_level', message)]
}

type ResolvedChoice = {
  harnesses: readonly Harness[]
  /** The harnesses in the versions that the configuration requires. Those without that version are missing. */
  pinned: readonly Harness[]
  model: Model
  choice: ModelChoice
  configuration: Configuration | undefined
  index: number
}

/** Appends one setting per harness of the choice. Returns errors for the harnesses that cannot be used. */
function addSettings(settings: NewSetting[], resolved: ResolvedChoice): FieldError[] {
  const { harnesses, pinned, model, choice, configuration, index } = resolved
  return choice.harnesses.flatMap((id, position) => {
    const harness = harnesses.find((each) => each.id === id)
    const pinnedHarness = pinned.find((each) => each.id === id)
    const pointer = `/models/${index}/harnesses/${position}`
    const misfits = harness && configuration ? listMisfits(harness, pinnedHarness, configuration, pointer) : []
    if (misfits.length > 0) return misfits
    const setting = buildSetting(pinnedHarness, model, choice, configuration)
    if (!setting)
      return listHarnessErrors(listLevelsByHarness(harnesses, model), model, resolveLevel(model, choice), {
        id,
        pointer,
      })
    if (settings.some((other) => other.id === setting.id))
      return [
        toFieldError(
          pointer,
          'duplicate_setting',
          'This combination of model, harness, reasoning level and configuration is listed twice.',
        ),
      ]
    settings.push(setting)
    return []
  })
}

/** Explains why a harness cannot be used. Unknown levels are reported once per model, by `listLevelErrors`. */
function listHarnessErrors(
  levels: Record<string, string[]>,
  model: Model,
  level: string,
  { id, pointer }: { id: string; pointer: string },
): FieldError[] {
  const supported = levels[id]
  if (!supported)
    return [toFieldError(pointer, 'unknown_harness', `This model works with ${Object.keys(levels).join(', ')}.`)]
  if (!findModelLevel(model, level)) return []
  const message = `${id} cannot use this model at the reasoning level ${level}, only at ${supported.join(', ')}.`
  return [toFieldError(pointer, 'level_out_of_reach', message)]
}

const resolveLevel = (model: Model, { reasoningLevel }: ModelChoice): string => reasoningLevel ?? model.defaultLevel

function buildSetting(
  harness: Harness | undefined,
  model: Model,
  choice: ModelChoice,
  configuration: Configuration | undefined,
): NewSetting | undefined {
  const level = resolveLevel(model, choice)
  if (!harness || !canDrive(harness, model, level)) return undefined
  const parts = [model.catalogId, harness.id, level]
  if (configuration) parts.push(`${configuration.name}@${configuration.version}`)
  const { timeoutMultiplier = 1 } = choice
  if (timeoutMultiplier !== 1) parts.push(`timeouts*${timeoutMultiplier}`)
  return {
    id: parts.join('|'),
    catalog_id: model.catalogId,
    name: model.name,
    label: model.label,
    provider: model.provider,
    custom: model.custom || isCustomHarness(harness.id),
    harness: harness.id,
    harness_version: harness.version,
    reasoning_level: level,
    credential_id: choice.credentialId,
    configuration: configuration?.name ?? null,
    configuration_version: configuration?.version ?? null,
    configuration_digest: configuration?.digest ?? null,
    timeout_multiplier: timeoutMultiplier === 1 ? null : timeoutMultiplier,
  }
}

/** Throws unless the sandbox exists and every credential exists and belongs to the provider it is used for. */
export async function requireCredentials(
  deps: CredentialDeps,
  workspaceId: string,
  request: NewComparison,
): Promise<void> {
  const errors: FieldError[] = []
  for (const [index, { catalogId, credentialId }] of request.models.entries()) {
    const provider = (await findModel(deps.db, workspaceId, catalogId))?.provider ?? ''
    const credential = await findCredential(deps, workspaceId, credentialId)
    if (!matchesProvider(credential, 'model', provider))
      errors.push(toCredentialError(`/models/${index}/credentialId`, 'model', provider))
  }
  const sandbox = findSandboxChoice(request.sandbox)
  if (!sandbox) errors.push(toFieldError('/sandbox', 'unknown_sandbox', 'The catalog has no sandbox with this id.'))
  const credential = await findCredential(deps, workspaceId, request.sandboxCredentialId)
  if (sandbox && !matchesProvider(credential, 'sandbox', sandbox.provider))
    errors.push(toCredentialError('/sandboxCredentialId', 'sandbox', sandbox.provider))
  if (errors.length > 0) rejectRequest(errors)
}

const matchesProvider = (credential: Credential | undefined, kind: Credential['kind'], provider: string): boolean =>
  credential?.kind === kind && credential.provider === provider

const toCredentialError = (pointer: string, kind: string, provider: string): FieldError =>
  toFieldError(pointer, 'credential_misfit', `This workspace has no ${kind} credential with this id for ${provider}.`)

/** Throws if a comparison would have too many trials. */
export function requireTrialCount(trials: number): void {
  if (trials > TRIALS_MAX)
    rejectRequest([
      toFieldError(
        '/models',
        'too_many_trials',
        `The comparison would have ${trials} trials; the maximum is ${TRIALS_MAX}.`,
      ),
    ])
}

/** The configuration of a model choice, or errors if it does not exist. */
type ChosenConfiguration = { configuration: Configuration | undefined; errors: FieldError[] }

/** Finds the configuration of a choice. A reference without a version means the newest version. */
async function resolveChosenConfiguration(
  deps: ConfigurationDeps,
  workspaceId: string,
  { configuration: reference }: ModelChoice,
  index: number,
): Promise<ChosenConfiguration> {
  if (reference === undefined) return { configuration: undefined, errors: [] }
  const configuration = await findConfiguration(deps, workspaceId, reference)
  if (configuration) return { configuration, errors: [] }
  const message = `Unknown configuration ${reference}. Create it first: assay configurations create`
  const error = toFieldError(`/models/${index}/configuration`, 'unknown_configuration', message)
  return { configuration, errors: [error] }
}

/** Returns the harness in the version that the configuration requires. Undefined if it is not available. */
async function findPinnedHarness(
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
function listMisfits(
  harness: Harness,
  pinned: Harness | undefined,
  configuration: Configuration,
  pointer: string,
): FieldError[] {
  if (harness.isControl)
    return [toFieldError(pointer, 'configuration_unusable', `${harness.name} runs no agent to configure.`)]
  const { version } = configuration.harnesses[harness.id] ?? {}
  const errors: FieldError[] = []
  if (!pinned) {
    const message = `The configuration requires ${harness.id} ${version}; this server has ${harness.version}.`
    errors.push(toFieldError(pointer, 'harness_version_unavailable', message))
  }
  if (configuration.mcpServers.length > 0 && !harness.supportsMcp) {
    const message = `${harness.name} does not support MCP servers, which the configuration adds.`
    errors.push(toFieldError(pointer, 'mcp_unsupported', message))
  }
  return errors
}

/** Reports MCP servers that the network policy of a task does not allow, each with the first such task. */
async function listMcpServerErrors(
  deps: ConfigurationDeps,
  configurations: readonly (Configuration | undefined)[],
  listTaskDigests: () => readonly string[],
): Promise<FieldError[]> {
  const servers = configurations.flatMap((configuration, index) =>
    (configuration?.mcpServers ?? []).flatMap((server) =>
      'url' in server ? [{ index, name: server.name, host: new URL(server.url).hostname }] : [],
    ),
  )
  if (servers.length === 0) return []
  const errors = new Map<string, FieldError>()
  for await (const { digest, networks } of readNetworks(deps, listTaskDigests()))
    for (const { index, name, host } of servers) {
      const forbidding = networks.find((network) => !allowsHost(network, host))
      if (!forbidding || errors.has(`${index} ${name}`)) continue
      const message = `The network policy of task ${digest} does not allow the MCP server ${name} at ${host}: ${describeNetwork(forbidding)}.`
      const error = toFieldError(`/models/${index}/configuration`, 'mcp_server_not_allowed', message)
      errors.set(`${index} ${name}`, error)
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

const allowsHost = ({ mode, hosts }: Network, host: string): boolean =>
  mode === 'public' || (mode === 'allowlist' && hosts.some((entry) => coversHost(entry, host)))

function describeNetwork({ mode, hosts }: Network): string {
  if (mode === 'allowlist') return `it allows ${hosts.length === 0 ? 'no host' : hosts.join(', ')}`
  return mode === 'undeclared' ? 'it declares no network' : 'it forbids the network'
}
