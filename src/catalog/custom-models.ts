import { isDeepStrictEqual } from 'node:util'
import { buildBearerHeaders, createCustomModelProvider, type ProviderDefinition } from '../credentials/providers.ts'
import type { Cloud } from '../credentials/schema.ts'
import type { Level, Protocol, WireLevel } from '../harnesses/model-access.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { findUrlRefusal, type Trust } from '../platform/outbound/outbound.ts'
import type { NetworkTrust } from '../platform/outbound/url-rules.ts'
import { type FieldError, invalidRequest, notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { listWorkspaces } from '../workspaces/workspaces.ts'
import type { Model } from './model.ts'
import { type CustomModel, modelExists, modelInUse, modelNameSpent, type NewModel } from './schema.ts'
import * as rows from './sql.ts'

const OPENAI_PROTOCOLS: readonly Protocol[] = ['openai-chat', 'openai-responses']

/** Returns the wire level of a custom model, in the form of the protocol's own provider. */
function toCustomWireLevel(protocol: Protocol, level: Level, all: readonly Level[]): WireLevel {
  if (level !== 'none') return { effort: level }
  // The model has no other level, so there is nothing to switch off.
  if (all.length === 1) return { nothing: true }
  return OPENAI_PROTOCOLS.includes(protocol) ? { effort: 'none' } : { off: true }
}

export type CustomModelDeps = {
  /** Returns how far addresses that a workspace gives are trusted. */
  findModelTrust: FindModelTrust
  /** Returns true if unfinished work uses the model. */
  isModelInUse: (db: Db, workspaceId: string, catalogId: string) => Promise<boolean>
}

/**
 * Adds a model, or changes label, default level and prices of an existing one. Its other fields cannot change, because
 * results refer to the model.
 */
export async function addModel(
  db: Db,
  by: AuditActor,
  input: NewModel,
  trust: Trust,
): Promise<{ kind: 'stored' | 'same'; model: CustomModel }> {
  requireValid(input, trust)
  return transact(db, async (tx) => {
    await rows.lockModelSlug(tx, by.workspaceId, toSlug(input.catalogId))
    const existing = await rows.findModelRow(tx, by.workspaceId, toSlug(input.catalogId))
    if (existing && isDeepStrictEqual(toContent(toCustomModel(existing)), toContent(input)) && !existing.removed_at)
      return { kind: 'same', model: toCustomModel(existing) }
    const row = existing ? await updateModel(tx, existing, input) : await insertModel(tx, by.workspaceId, input)
    const action = existing ? 'model.repriced' : 'model.added'
    await record(tx, { ...by, action, subject: input.catalogId, detail: { baseUrl: input.baseUrl } })
    return { kind: 'stored', model: toCustomModel(row) }
  })
}

/** Lists one page of the custom models of a workspace, as the API shows them. */
export async function listModelPage(db: Db, workspaceId: string, page: Page) {
  const modelRows = await rows.listModelRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(modelRows, page.limit, toCreationCursor)
  return { models: items.map(toCustomModel), nextCursor }
}

/** Removes a model, unless unfinished work uses it. Its catalogId cannot be reused. */
export async function removeModel(
  { isModelInUse }: Pick<CustomModelDeps, 'isModelInUse'>,
  db: Db,
  by: AuditActor,
  catalogId: string,
): Promise<void> {
  await transact(db, async (tx) => {
    const row = await rows.findModelRow(tx, by.workspaceId, toSlug(catalogId))
    if (!row || row.removed_at) throw new Problem(notFound, `Model ${catalogId} not found.`)
    if (await isModelInUse(tx, by.workspaceId, catalogId))
      throw new Problem(modelInUse, `An unfinished comparison or batch uses ${catalogId}.`)
    await rows.removeModelRow(tx, row.id)
    await record(tx, { ...by, action: 'model.removed', subject: catalogId })
  })
}

const MODELS_MAX = 1000

/** Lists the custom models of a workspace as models of its catalog. */
export async function listCustomModels(db: Db, workspaceId: string): Promise<Model[]> {
  return (await rows.listModelRows(db, workspaceId, { limit: MODELS_MAX })).map(toModel)
}

export async function findCustomModel(
  db: Db,
  workspaceId: string,
  catalogId: string,
  { alsoRemoved }: { alsoRemoved: boolean } = { alsoRemoved: false },
): Promise<Model | undefined> {
  if (!catalogId.startsWith(PREFIX)) return undefined
  const row = await rows.findModelRow(db, workspaceId, toSlug(catalogId))
  return row && (alsoRemoved || !row.removed_at) ? toModel(row) : undefined
}

/** Lists the providers of custom models, each of which can have credentials. */
export async function listCustomProviders(db: Db, workspaceId: string, trust: Trust): Promise<ProviderDefinition[]> {
  const modelRows = await rows.listModelRows(db, workspaceId, { limit: MODELS_MAX })
  return modelRows
    .map(toCustomModel)
    .map(({ catalogId, name, protocol, baseUrl, cloud }) =>
      createCustomModelProvider({ provider: catalogId, model: name, baseUrl, cloud, trust, ...PROBES[protocol] }),
    )
}

/** Small requests that need a valid key. */
const PROBES = {
  'anthropic-messages': {
    path: '/v1/models?limit=1',
    headers: (key: string) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
  },
  'openai-chat': { path: '/v1/models', headers: buildBearerHeaders },
  'openai-responses': { path: '/v1/models', headers: buildBearerHeaders },
  gemini: { path: '/v1beta/models?pageSize=1', headers: (key: string) => ({ 'x-goog-api-key': key }) },
}

const PREFIX = 'custom/'
const toSlug = (catalogId: string): string => catalogId.slice(PREFIX.length)

/** Protocols of the models that each cloud hosts. */
const CLOUD_PROTOCOLS: Record<Cloud, readonly Protocol[]> = {
  bedrock: ['anthropic-messages', 'openai-chat'],
  vertex: ['anthropic-messages', 'gemini', 'openai-chat'],
  azure: ['openai-chat', 'openai-responses'],
}

function requireValid(
  { catalogId, baseUrl, protocol, cloud, reasoningLevels, defaultReasoningLevel }: NewModel,
  trust: Trust,
): void {
  const errors: FieldError[] = []
  const refusal = findUrlRefusal(baseUrl, trust)
  if (refusal) errors.push({ pointer: '/baseUrl', code: refusal, message: explainAddress(catalogId, trust) })
  if (cloud && !CLOUD_PROTOCOLS[cloud].includes(protocol)) {
    const message = `must be one of ${CLOUD_PROTOCOLS[cloud].join(', ')} in ${cloud}`
    errors.push({ pointer: '/protocol', code: 'protocol_not_in_cloud', message })
  }
  if (new Set(reasoningLevels).size < reasoningLevels.length)
    errors.push({ pointer: '/reasoningLevels', code: 'duplicate_level', message: 'must not repeat a level' })
  if (!reasoningLevels.includes(defaultReasoningLevel)) {
    const message = 'must be one of reasoningLevels'
    errors.push({ pointer: '/defaultReasoningLevel', code: 'unknown_level', message })
  }
  if (errors[0]) throw new Problem(invalidRequest, `${errors[0].pointer}: ${errors[0].message}`, { errors })
}

/** Explains the rule for addresses, and the setting with which the operator allows others. */
const explainAddress = (catalogId: string, trust: Trust): string =>
  typeof trust === 'object'
    ? 'must be an address in a network that ASSAY_MODEL_NETWORKS allows for this workspace, or an https address of a public host, without a user name, and in the form that a URL parser returns.'
    : `must be an https address of a public host, in the form that a URL parser returns. For a private host the operator allows its network with ASSAY_MODEL_NETWORKS, or sets ASSAY_GATEWAY_UPSTREAM_${catalogId.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')} to the address.`

/** Returns the fields that identify a model. They cannot be changed. */
const toIdentity = ({ name, protocol, baseUrl, cloud, reasoningLevels, contextTokens, outputTokens }: NewModel) => ({
  name,
  protocol,
  baseUrl,
  cloud,
  contextTokens,
  outputTokens,
  reasoningLevels: [...reasoningLevels].sort(),
})

/** Returns all fields of a model that are stored, to recognise a repeated request. */
const toContent = (model: NewModel) => ({
  ...toIdentity(model),
  label: model.label,
  defaultReasoningLevel: model.defaultReasoningLevel,
  prices: model.prices,
})

async function insertModel(tx: Db, workspaceId: string, input: NewModel): Promise<rows.ModelRow> {
  const id = newId()
  await rows.insertModelRow(tx, {
    id,
    workspace_id: workspaceId,
    slug: toSlug(input.catalogId),
    name: input.name,
    label: input.label,
    protocol: input.protocol,
    base_url: input.baseUrl,
    cloud: input.cloud ?? null,
    default_level: input.defaultReasoningLevel,
    reasoning_levels: input.reasoningLevels,
    context_tokens: input.contextTokens,
    output_tokens: input.outputTokens,
  })
  await rows.insertPrices(tx, id, 1, input.prices)
  return rows.readModelRow(tx, id)
}

/** Changes the label, the default level and the prices of a model. */
async function updateModel(tx: Db, existing: rows.ModelRow, input: NewModel): Promise<rows.ModelRow> {
  if (existing.removed_at) throw new Problem(modelNameSpent, `${input.catalogId} was removed. Choose another id.`)
  if (!isDeepStrictEqual(toIdentity(toCustomModel(existing)), toIdentity(input)))
    throw new Problem(modelExists, `${input.catalogId} exists with other settings. Choose another id.`)
  await rows.updateModelRow(tx, existing.id, { label: input.label, default_level: input.defaultReasoningLevel })
  if (!isDeepStrictEqual(toCustomModel(existing).prices, input.prices))
    await rows.insertPrices(tx, existing.id, existing.version + 1, input.prices)
  return rows.readModelRow(tx, existing.id)
}

const toCustomModel = (row: rows.ModelRow): CustomModel => ({
  catalogId: `${PREFIX}${row.slug}`,
  name: row.name,
  label: row.label,
  protocol: row.protocol,
  baseUrl: row.base_url,
  cloud: row.cloud ?? undefined,
  reasoningLevels: row.reasoning_levels,
  defaultReasoningLevel: row.default_level,
  contextTokens: row.context_tokens,
  outputTokens: row.output_tokens,
  prices: row.prices,
  createdAt: row.created_at.toISOString(),
})

/** Converts a row. Missing cache prices default to the input price. */
function toModel(row: rows.ModelRow): Model {
  const { catalogId, name, label, protocol, baseUrl, cloud, contextTokens, outputTokens, prices } = toCustomModel(row)
  const { input, output, cacheRead = input, cacheWrite = input } = prices
  return {
    catalogId,
    name,
    label,
    provider: catalogId,
    custom: true,
    protocols: [protocol],
    contextTokens,
    outputTokens,
    knowledgeCutoff: null,
    baseUrl,
    cloud,
    levels: row.reasoning_levels.map((level) => ({
      level,
      wire: toCustomWireLevel(protocol, level, row.reasoning_levels),
    })),
    defaultLevel: row.default_level,
    prices: { input, output, cacheRead, cacheWrite5m: cacheWrite, cacheWrite1h: cacheWrite },
  }
}

/** Private networks in which custom models of a workspace may run, by its login in lower case. Set by the operator. */
export type ModelNetworks = ReadonlyMap<string, NetworkTrust['networks']>

/** Finds the trust of a workspace by its id. */
type FindModelTrust = (db: Db, workspaceId: string) => Promise<Trust>

/** Creates the lookup of a process. Logins never change, so they are read once. */
export function createModelTrustLookup(networks: ModelNetworks): FindModelTrust {
  const trusts = new Map<string, Trust>()
  return async (db, workspaceId) => {
    if (networks.size === 0) return 'client'
    if (!trusts.has(workspaceId))
      for (const { id, login } of await listWorkspaces(db)) trusts.set(id, toModelTrust(networks, login))
    return trusts.get(workspaceId) ?? 'client'
  }
}

/** Returns how far the model addresses of a workspace are trusted: public ones only, or also those of its networks. */
function toModelTrust(networks: ModelNetworks, login: string): Trust {
  const allowed = networks.get(login.toLowerCase()) ?? []
  return allowed.length === 0 ? 'client' : { networks: allowed }
}
