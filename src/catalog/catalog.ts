import { listCredentials, type Tools } from '../credentials/credentials.ts'
import type { Owner } from '../credentials/derived.ts'
import type { Credential } from '../credentials/schema.ts'
import { catalogHarnesses } from './harnesses.ts'
import { models } from './models.ts'
import { liveOffers } from './offers.ts'
import { sandboxChoices } from './sandboxes.ts'
import type { Catalog } from './schema.ts'

const CREDENTIALS_MAX = 10_000

/** All that a comparison of this workspace can choose from. */
export async function readCatalog(tools: Tools, owner: Owner): Promise<Catalog> {
  const { credentials } = await listCredentials(tools, owner, { limit: CREDENTIALS_MAX })
  const offers = new Map((await liveOffers(tools.db)).map((offer) => [offer.sandbox, offer]))
  return {
    models: models.map((model) => ({ ...model, credentials: named(credentials, 'model', model.provider) })),
    harnesses: [...catalogHarnesses],
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

const named = (credentials: Credential[], kind: Credential['kind'], provider: string) =>
  credentials
    .filter((credential) => credential.kind === kind && credential.provider === provider)
    .map(({ id, name }) => ({ id, name }))
