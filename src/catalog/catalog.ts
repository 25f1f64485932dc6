import { type CredentialDeps, listCredentials } from '../credentials/credentials.ts'
import type { CredentialOwner } from '../credentials/providers.ts'
import type { Credential } from '../credentials/schema.ts'
import type { Harness } from '../harnesses/harness.ts'
import { isSandboxAvailable, listLiveCapabilities } from './capabilities.ts'
import { listHarnesses, listLevelsByHarness, toCatalogHarness } from './harnesses.ts'
import type { Model } from './model.ts'
import { listModels } from './models.ts'
import { type SandboxChoice, sandboxChoices, toEngineCapability } from './sandboxes.ts'
import type { Catalog, CatalogModel } from './schema.ts'
import type { WorkerCapability } from './sql.ts'

const CREDENTIALS_MAX = 10_000

/** Lists the models, harnesses and sandboxes that a comparison of this workspace can use. */
export async function readCatalog(deps: CredentialDeps, owner: CredentialOwner): Promise<Catalog> {
  const { credentials } = await listCredentials(deps, owner, { limit: CREDENTIALS_MAX })
  const capabilities = await listLiveCapabilities(deps.db)
  const models = await listModels(deps.db, owner.id)
  const harnesses = await listHarnesses(deps.db, owner.id)
  return {
    models: models.map((model) => ({
      ...toCatalogModel(harnesses, model),
      credentials: listCredentialNames(credentials, 'model', model.provider),
    })),
    harnesses: harnesses.map(toCatalogHarness),
    sandboxes: await Promise.all(
      sandboxChoices.map(async (choice) => {
        const { available, detail, isolation } = await resolveCapability(deps, choice, capabilities, credentials)
        return {
          id: choice.id,
          name: choice.name,
          available,
          detail,
          isolation: available ? isolation : null,
          credentials: listCredentialNames(credentials, 'sandbox', choice.provider),
        }
      }),
    ),
  }
}

/**
 * Returns the state of a sandbox for a workspace. A sandbox that no worker has of its own is also available if the
 * workspace stored an engine that workers can use.
 */
async function resolveCapability(
  { db }: CredentialDeps,
  { id, provider, hasEngines }: SandboxChoice,
  capabilities: readonly WorkerCapability[],
  credentials: readonly Credential[],
): Promise<Omit<WorkerCapability, 'sandbox'>> {
  const capability = capabilities.find(({ sandbox }) => sandbox === id)
  if (capability?.available) return capability
  const hasStoredEngine =
    hasEngines && credentials.some((each) => each.provider === provider && each.source === 'stored')
  if (hasStoredEngine && (await isSandboxAvailable(db, toEngineCapability(id))))
    return { available: true, isolation: id, detail: 'Only with the engine of a stored credential.' }
  return capability ?? { available: false, isolation: '', detail: 'No worker has this sandbox at the moment.' }
}

function toCatalogModel(harnesses: readonly Harness[], model: Model): Omit<CatalogModel, 'credentials'> {
  const { catalogId, name, label, provider, custom, contextTokens, knowledgeCutoff, prices } = model
  const harnessLevels = listLevelsByHarness(harnesses, model)
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
