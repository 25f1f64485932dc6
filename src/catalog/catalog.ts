import { type CredentialDeps, listCredentials } from '../credentials/credentials.ts'
import type { CredentialOwner } from '../credentials/derived.ts'
import type { Credential } from '../credentials/schema.ts'
import type { Harness } from '../harnesses/harness.ts'
import { listLiveCapabilities } from './capabilities.ts'
import { levelsByHarness, listHarnesses, toCatalogHarness } from './harnesses.ts'
import type { Model } from './model.ts'
import { listModels } from './models.ts'
import { sandboxChoices } from './sandboxes.ts'
import type { Catalog, CatalogModel } from './schema.ts'

const CREDENTIALS_MAX = 10_000

/** Lists the models, harnesses and sandboxes that a comparison of this workspace can use. */
export async function readCatalog(deps: CredentialDeps, owner: CredentialOwner): Promise<Catalog> {
  const { credentials } = await listCredentials(deps, owner, { limit: CREDENTIALS_MAX })
  const capabilities = new Map(
    (await listLiveCapabilities(deps.db)).map((capability) => [capability.sandbox, capability]),
  )
  const models = await listModels(deps.db, owner.id)
  const harnesses = await listHarnesses(deps.db, owner.id)
  return {
    models: models.map((model) => ({
      ...toCatalogModel(harnesses, model),
      credentials: listCredentialNames(credentials, 'model', model.provider),
    })),
    harnesses: harnesses.map(toCatalogHarness),
    sandboxes: sandboxChoices.map(({ id, name, provider }) => {
      const capability = capabilities.get(id)
      return {
        id,
        name,
        available: capability?.available ?? false,
        detail: capability ? capability.detail : 'No worker has this sandbox at the moment.',
        isolation: capability?.available ? capability.isolation : null,
        credentials: listCredentialNames(credentials, 'sandbox', provider),
      }
    }),
  }
}

function toCatalogModel(harnesses: readonly Harness[], model: Model): Omit<CatalogModel, 'credentials'> {
  const { catalogId, name, label, provider, custom, contextTokens, knowledgeCutoff, prices } = model
  const harnessLevels = levelsByHarness(harnesses, model)
  return {
    catalogId,
    name,
    label,
    provider,
    custom,
    reasoningLevels: model.levels.map(({ level }) => level),
    defaultReasoningLevel: model.defaultLevel,
    harnesses: Object.keys(harnessLevels),
    harnessLevels,
    contextTokens,
    knowledgeCutoff,
    prices: toCatalogPrices(prices),
  }
}

type CacheRates = { cacheWrite5m?: number | undefined }

/** Shows the price of a five-minute cache write as `cacheWrite`. */
const toCatalogRates = <R extends CacheRates>({ cacheWrite5m, ...rates }: R) => ({
  ...rates,
  cacheWrite: cacheWrite5m,
})

const toCatalogPrices = ({ tiers, ...rates }: Model['prices']): CatalogModel['prices'] => ({
  ...toCatalogRates(rates),
  tiers: tiers?.map(toCatalogRates),
})

const listCredentialNames = (credentials: Credential[], kind: Credential['kind'], provider: string) =>
  credentials
    .filter((credential) => credential.kind === kind && credential.provider === provider)
    .map(({ id, name }) => ({ id, name }))
