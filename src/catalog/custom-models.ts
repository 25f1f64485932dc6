import { isDeepStrictEqual } from 'node:util'
import { ownModelProvider, type Provider } from '../credentials/providers.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { refuseUrl } from '../platform/outbound/outbound.ts'
import { invalidRequest, notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { customWire } from './custom-levels.ts'
import type { Model } from './model.ts'
import { type CustomModel, modelExists, modelInUse, modelNameSpent, type NewModel } from './schema.ts'
import * as rows from './sql.ts'

export type ModelTools = {
  /** Whether something that is not over yet works with it. */
  isModelInUse: (db: Db, workspaceId: string, catalogId: string) => Promise<boolean>
}

/** A model that is there already takes a new label and new prices, and nothing else: what was compared stays true. */
export async function addModel(
  db: Db,
  by: By,
  wish: NewModel,
): Promise<{ kind: 'added' | 'same'; model: CustomModel }> {
  requireSense(wish)
  return transact(db, async (tx) => {
    await rows.lockSlug(tx, by.workspaceId, slugOf(wish.catalogId))
    const before = await rows.findModelRow(tx, by.workspaceId, slugOf(wish.catalogId))
    if (before && isDeepStrictEqual(contentOf(modelOf(before)), contentOf(wish)) && !before.removed_at)
      return { kind: 'same', model: modelOf(before) }
    const row = before ? await reprice(tx, before, wish) : await insert(tx, by.workspaceId, wish)
    const action = before ? 'model.repriced' : 'model.added'
    await record(tx, { ...by, action, subject: wish.catalogId, detail: { baseUrl: wish.baseUrl } })
    return { kind: 'added', model: modelOf(row) }
  })
}

export async function listModelPage(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listModelRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(found, page.limit, modelOf, (row) => ({ at: row.created_at, id: row.id }))
  return { models: items, nextCursor }
}

export async function removeModel({ isModelInUse }: ModelTools, db: Db, by: By, catalogId: string): Promise<void> {
  await transact(db, async (tx) => {
    const row = await rows.findModelRow(tx, by.workspaceId, slugOf(catalogId))
    if (!row || row.removed_at) throw new Problem(notFound, `There is no model ${catalogId}.`)
    if (await isModelInUse(tx, by.workspaceId, catalogId))
      throw new Problem(modelInUse, `A comparison that is not over yet works with ${catalogId}.`)
    await rows.removeModelRow(tx, row.id)
    await record(tx, { ...by, action: 'model.removed', subject: catalogId })
  })
}

const MODELS_MAX = 1000

export async function listCustomModels(db: Db, workspaceId: string): Promise<Model[]> {
  return (await rows.listModelRows(db, workspaceId, { limit: MODELS_MAX })).map(comparable)
}

export async function findCustomModel(
  db: Db,
  workspaceId: string,
  catalogId: string,
  { alsoRemoved }: { alsoRemoved: boolean } = { alsoRemoved: false },
): Promise<Model | undefined> {
  if (!catalogId.startsWith(PREFIX)) return undefined
  const row = await rows.findModelRow(db, workspaceId, slugOf(catalogId))
  return row && (alsoRemoved || !row.removed_at) ? comparable(row) : undefined
}

/** Each is a provider whose credentials the workspace can have. */
export async function customProviders(db: Db, workspaceId: string): Promise<Provider[]> {
  const found = await rows.listModelRows(db, workspaceId, { limit: MODELS_MAX })
  return found
    .map(modelOf)
    .map(({ catalogId, protocol, baseUrl }) =>
      ownModelProvider({ provider: catalogId, baseUrl, ...QUESTIONS[protocol] }),
    )
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** Something small that a key must be right for. */
const QUESTIONS = {
  'anthropic-messages': {
    path: '/v1/models?limit=1',
    headers: (key: string) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
  },
  'openai-chat': { path: '/v1/models', headers: bearer },
  'openai-responses': { path: '/v1/models', headers: bearer },
  gemini: { path: '/v1beta/models?pageSize=1', headers: (key: string) => ({ 'x-goog-api-key': key }) },
}

const PREFIX = 'custom/'
const slugOf = (catalogId: string): string => catalogId.slice(PREFIX.length)

function requireSense({ catalogId, baseUrl, reasoningLevels, defaultReasoningLevel }: NewModel): void {
  const refusal = refuseUrl(baseUrl, 'client')
  const errors = [
    ...(refusal ? [{ pointer: '/baseUrl', code: refusal, message: publicOnly(catalogId) }] : []),
    ...(new Set(reasoningLevels).size < reasoningLevels.length
      ? [{ pointer: '/reasoningLevels', code: 'duplicate_level', message: 'names a level twice' }]
      : []),
    ...(reasoningLevels.includes(defaultReasoningLevel)
      ? []
      : [{ pointer: '/defaultReasoningLevel', code: 'unknown_level', message: 'must be one of reasoningLevels' }]),
  ]
  if (errors[0]) throw new Problem(invalidRequest, `${errors[0].pointer}: ${errors[0].message}`, { errors })
}

/** What only the operator's machines reach is named by the operator. */
const publicOnly = (catalogId: string): string =>
  `must be an https address of a public host, in the form that a URL parser returns. Of a private host, give any such address here, and start the service with ASSAY_GATEWAY_UPSTREAM_${catalogId.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')} set to the real one.`

/** What makes it another model, were it different. */
const natureOf = ({ name, protocol, baseUrl, reasoningLevels, contextTokens, outputTokens }: NewModel) => ({
  ...{ name, protocol, baseUrl, contextTokens, outputTokens },
  reasoningLevels: [...reasoningLevels].sort(),
})

const contentOf = (model: NewModel) => ({
  ...natureOf(model),
  ...{ label: model.label, defaultReasoningLevel: model.defaultReasoningLevel, prices: model.prices },
})

async function insert(tx: Db, workspaceId: string, wish: NewModel): Promise<rows.ModelRow> {
  const id = newId()
  await rows.insertModelRow(tx, {
    ...{ id, workspace_id: workspaceId, slug: slugOf(wish.catalogId), name: wish.name, label: wish.label },
    ...{ protocol: wish.protocol, base_url: wish.baseUrl, default_level: wish.defaultReasoningLevel },
    ...{ reasoning_levels: wish.reasoningLevels, context_tokens: wish.contextTokens, output_tokens: wish.outputTokens },
  })
  await rows.insertPrices(tx, id, 1, wish.prices)
  return rows.readModelRow(tx, id)
}

async function reprice(tx: Db, before: rows.ModelRow, wish: NewModel): Promise<rows.ModelRow> {
  if (before.removed_at) throw new Problem(modelNameSpent, `${wish.catalogId} was removed. Choose another name.`)
  if (!isDeepStrictEqual(natureOf(modelOf(before)), natureOf(wish)))
    throw new Problem(modelExists, `${wish.catalogId} is there, and is another model.`)
  await rows.updateModelRow(tx, before.id, { label: wish.label, default_level: wish.defaultReasoningLevel })
  if (!isDeepStrictEqual(modelOf(before).prices, wish.prices))
    await rows.insertPrices(tx, before.id, before.version + 1, wish.prices)
  return rows.readModelRow(tx, before.id)
}

const modelOf = (row: rows.ModelRow): CustomModel => ({
  catalogId: `${PREFIX}${row.slug}`,
  name: row.name,
  label: row.label,
  protocol: row.protocol,
  baseUrl: row.base_url,
  reasoningLevels: row.reasoning_levels,
  defaultReasoningLevel: row.default_level,
  contextTokens: row.context_tokens,
  outputTokens: row.output_tokens,
  prices: row.prices,
  createdAt: row.created_at.toISOString(),
})

/** Whoever names no price for the cache pays for it as for other input. */
function comparable(row: rows.ModelRow): Model {
  const { catalogId, name, label, protocol, baseUrl, contextTokens, outputTokens, prices } = modelOf(row)
  const { input, output, cacheRead = input, cacheWrite = input } = prices
  return {
    ...{ catalogId, name, label, provider: catalogId, custom: true, protocols: [protocol] },
    ...{ contextTokens, outputTokens, knowledgeCutoff: null, baseUrl },
    levels: row.reasoning_levels.map((level) => ({ level, wire: customWire(protocol, level, row.reasoning_levels) })),
    defaultLevel: row.default_level,
    prices: { input, output, cacheRead, cacheWrite5m: cacheWrite, cacheWrite1h: cacheWrite },
  }
}
