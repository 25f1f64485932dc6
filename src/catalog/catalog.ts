import { listCredentials, type Tools } from '../credentials/credentials.ts'
import type { Owner } from '../credentials/derived.ts'
import type { Credential } from '../credentials/schema.ts'
import type { Harness } from '../harnesses/harness.ts'
import { levelsByHarness, listHarnesses, shownHarness } from './harnesses.ts'
import type { Model } from './model.ts'
import { listModels } from './models.ts'
import { liveOffers } from './offers.ts'
import { sandboxChoices } from './sandboxes.ts'
import type { Catalog, CatalogModel } from './schema.ts'

const CREDENTIALS_MAX = 10_000

/** All that a comparison of this workspace can choose from. */
export async function readCatalog(tools: Tools, owner: Owner): Promise<Catalog> {
  const { credentials } = await listCredentials(tools, owner, { limit: CREDENTIALS_MAX })
  const offers = new Map((await liveOffers(tools.db)).map((offer) => [offer.sandbox, offer]))
  const models = await listModels(tools.db, owner.id)
  const harnesses = await listHarnesses(tools.db, owner.id)
  return {
    models: models.map((model) => ({
      ...shown(harnesses, model),
      credentials: named(credentials, 'model', model.provider),
    })),
    harnesses: harnesses.map(shownHarness),
    sandboxes: sandboxChoices.map(({ id, name, provider }) => {
      const offer = offers.get(id)
      return {
        id,
        name,
        available: offer?.available ?? false,
        detail: offer ? offer.detail : 'No worker offers it at this moment.',
        isolation: offer?.available ? offer.isolation : null,
        credentials: named(credentials, 'sandbox', provider),
      }
    }),
  }
}

function shown(harnesses: readonly Harness[], model: Model): Omit<CatalogModel, 'credentials'> {
  const { catalogId, name, label, provider, custom, contextTokens, knowledgeCutoff, prices } = model
  const harnessLevels = levelsByHarness(harnesses, model)
  return {
    ...{ catalogId, name, label, provider, custom },
    reasoningLevels: model.levels.map(({ level }) => level),
    defaultReasoningLevel: model.defaultLevel,
    harnesses: Object.keys(harnessLevels),
    harnessLevels,
    ...{ contextTokens, knowledgeCutoff, prices: pricesShown(prices) },
  }
}

type Rates = { cacheWrite5m?: number | undefined }

/** What is kept for five minutes is what people mean by writing into the cache. */
const renamed = <R extends Rates>({ cacheWrite5m, ...rates }: R) => ({
  ...rates,
  ...(cacheWrite5m !== undefined && { cacheWrite: cacheWrite5m }),
})

const pricesShown = ({ tiers, ...rates }: Model['prices']): CatalogModel['prices'] => ({
  ...renamed(rates),
  ...(tiers && { tiers: tiers.map(renamed) }),
})

const named = (credentials: Credential[], kind: Credential['kind'], provider: string) =>
  credentials
    .filter((credential) => credential.kind === kind && credential.provider === provider)
    .map(({ id, name }) => ({ id, name }))
