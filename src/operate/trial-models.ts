import type { Model } from '../catalog/model.ts'
import { findModel, listPublicModels } from '../catalog/models.ts'
import type { Quote } from '../comparisons/costs/schema.ts'
import { buildQuote, estimateTrial } from '../comparisons/quote.ts'
import type { Config } from '../config.ts'
import { openKeyring } from '../credentials/master-key.ts'
import { findModelKeyVariable, findModelSecret } from '../credentials/providers.ts'
import type { Secret } from '../credentials/seal.ts'
import { openNewestSecret } from '../credentials/secrets.ts'
import { findHarness } from '../harnesses/harnesses.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { UnknownName } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { suggestName } from '../platform/suggestion.ts'
import { toCredentialDeps } from '../services.ts'
import { readWorkspaceRow } from '../workspaces/workspaces.ts'
import { withExistingData } from './operate.ts'

/** A model server that the command line names by its address. */
type ModelServer = { baseUrl: string; protocol: Protocol; apiKey: string | undefined }

export type ModelSelection = {
  catalogId: string
  level: string | undefined
  budgetUsd: number | undefined
  server?: ModelServer | undefined
}

/** A model and its secret. Without one the gateway takes the key of the environment. */
type ResolvedModel = { model: Model; secret: Secret | undefined }

/** Finds the model of a trial without a server: by its address, among the custom models of the data folder, or in the catalog. */
export async function resolveTrialModel(
  config: Config,
  log: Log,
  { catalogId, server }: ModelSelection,
): Promise<ResolvedModel> {
  if (server) return { model: toServerModel(catalogId, server), secret: { apiKey: server.apiKey ?? NO_KEY } }
  if (catalogId.startsWith('custom/')) return readCustomModel(config, log, catalogId)
  const model = listPublicModels().find((known) => known.catalogId === catalogId)
  if (!model) throw new UnknownName(describeUnknownModel(catalogId))
  if (!findModelSecret(config.environment, model.provider))
    throw new UnknownName(
      `No key for ${model.provider} in the environment. Set ${findModelKeyVariable(model.provider) ?? 'its variable'}.`,
    )
  return { model, secret: undefined }
}

export const listModelNames = (): string[] =>
  listPublicModels().flatMap(({ catalogId, protocols }) => (protocols.length > 0 ? [catalogId] : []))

function describeUnknownModel(catalogId: string): string {
  const names = listModelNames()
  return `The catalog has no model ${catalogId}.${suggestName(catalogId, names) || ` Known: ${names.join(', ')}.`}`
}

/** Sent to servers that need no key. */
const NO_KEY = 'none'
/** Assumed limits of a model of which only the address is known. */
const CONTEXT_TOKENS = 128_000
const OUTPUT_TOKENS = 32_000

const toServerModel = (name: string, { baseUrl, protocol }: ModelServer): Model => ({
  catalogId: name,
  name,
  label: name,
  provider: name,
  custom: true,
  protocols: [protocol],
  contextTokens: CONTEXT_TOKENS,
  outputTokens: OUTPUT_TOKENS,
  knowledgeCutoff: null,
  baseUrl,
  levels: [{ level: 'none', wire: { nothing: true } }],
  defaultLevel: 'none',
  prices: { input: 0, output: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 },
})

/** Reads a custom model of the workspace `local`, with its newest key, from the data folder. */
const readCustomModel = (config: Config, log: Log, catalogId: string): Promise<ResolvedModel> =>
  withExistingData(config, log, async (db, database) => {
    const workspace = await readWorkspaceRow(db, 'local')
    const model = await findModel(db, workspace.id, catalogId)
    if (!model)
      throw new UnknownName(`There is no model ${catalogId}. Add it: assay models add ${catalogId} --base-url <url>`)
    const keyring = config.credentialStorage ? await openKeyring({ db, ...config }) : undefined
    const deps = toCredentialDeps({ database, keyring, config, outbound: createOutbound() })
    const opened = await openNewestSecret(deps, workspace.id, { kind: 'model', provider: catalogId })
    return { model, secret: opened?.secret ?? { apiKey: NO_KEY } }
  })

type PlannedRun = { tasks: number; attempts: number; harness: string }

/** Estimates cost and duration of trials on task folders, which run one after the other. Undefined without a model. */
export async function quoteTaskRun(
  config: Config,
  log: Log,
  selection: ModelSelection,
  { tasks, attempts, harness }: PlannedRun,
): Promise<Quote | undefined> {
  if (!findHarness(harness)?.protocols.length) return undefined
  const { model } = await resolveTrialModel(config, log, selection)
  const level = selection.level ?? model.defaultLevel
  const estimate = estimateTrial(model.prices, level, { easy: 0, medium: tasks, hard: 0 })
  const setting = {
    id: `${model.catalogId}|${harness}|${level}`,
    cost: { source: 'estimated' as const, micros: estimate.micros },
    duration: { seconds: estimate.seconds, source: 'estimated' as const },
  }
  const limits = { trialBudgetUsd: selection.budgetUsd, concurrency: 1 }
  return buildQuote({ tasks, settings: 1, attempts }, [setting], limits)
}
