import { listLiveCapabilities } from '../../catalog/capabilities.ts'
import { levelsByHarness } from '../../catalog/harnesses.ts'
import type { Model } from '../../catalog/model.ts'
import { listModels } from '../../catalog/models.ts'
import { sandboxChoices } from '../../catalog/sandboxes.ts'
import { type CredentialDeps, listCredentials } from '../../credentials/credentials.ts'
import type { CredentialOwner } from '../../credentials/derived.ts'
import type { Credential } from '../../credentials/schema.ts'
import { mini } from '../../harnesses/mini.ts'
import type { Db } from '../../platform/db/db.ts'
import type { GenerationOptions } from '../schema.ts'
import { type GenerationChoices, selectDefaults } from './defaults.ts'

const CREDENTIALS_MAX = 10_000

/** Every value that a new batch may name. What is not in here is refused. */
export async function readOptions(tools: CredentialDeps, owner: CredentialOwner): Promise<GenerationOptions> {
  const { credentials } = await listCredentials(tools, owner, { limit: CREDENTIALS_MAX })
  const models = listModelOptions(credentials, await listModels(tools.db, owner.id))
  const providers = new Set(models.map(({ provider }) => provider))
  const sandboxes = await listSandboxes(tools.db)
  const choices: GenerationChoices = {
    credentialStorage: tools.keyring !== undefined,
    models,
    reasoning: [...new Set(models.flatMap(({ reasoning }) => reasoning))],
    modelAccess: tools.keyring ? ['credential'] : ['environment', 'credential'],
    modelCredentials: listCredentialOptions(credentials, 'model').filter(({ provider }) => providers.has(provider)),
    sandboxes,
    harborEnvironments: sandboxes,
    sandboxCredentials: listCredentialOptions(credentials, 'sandbox'),
    harborCredentials: listCredentialOptions(credentials, 'sandbox'),
  }
  return { ...choices, defaults: selectDefaults(choices) }
}

/** Lists the models that the workspace can call, with their supported levels. */
function listModelOptions(credentials: readonly Credential[], models: readonly Model[]): GenerationOptions['models'] {
  return models.flatMap((model) => {
    const { catalogId, label, provider, prices } = model
    const reasoning = levelsByHarness([mini], model)[mini.id] ?? []
    const isOpen = credentials.some((each) => each.kind === 'model' && each.provider === provider)
    if (!isOpen || reasoning.length === 0) return []
    return [{ catalogId, label, provider, reasoning, prices: { input: prices.input, output: prices.output } }]
  })
}

async function listSandboxes(db: Db): Promise<GenerationOptions['sandboxes']> {
  const offers = new Map((await listLiveCapabilities(db)).map((offer) => [offer.sandbox, offer]))
  return sandboxChoices.map(({ id, name, provider }) => {
    const { available, detail, isolation } = offers.get(id) ?? UNAVAILABLE
    return { id, name, provider, available, detail, isolation: available ? isolation : null }
  })
}

const UNAVAILABLE = { available: false, detail: 'No worker has this sandbox at the moment.', isolation: '' }

/** Built-in credentials come first, because they are the defaults. */
const listCredentialOptions = (credentials: readonly Credential[], kind: Credential['kind']) =>
  credentials
    .filter((credential) => credential.kind === kind)
    .toSorted((one, other) => Number(other.source === 'builtin') - Number(one.source === 'builtin'))
    .map(({ id, name, provider }) => ({ id, name, provider }))
