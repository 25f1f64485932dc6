import { listLiveCapabilities } from '../../catalog/capabilities.ts'
import { listLevelsByHarness } from '../../catalog/harnesses.ts'
import type { Model } from '../../catalog/model.ts'
import { listModels } from '../../catalog/models.ts'
import { sandboxChoices } from '../../catalog/sandboxes.ts'
import { type CredentialDeps, listCredentials } from '../../credentials/credentials.ts'
import type { CredentialOwner } from '../../credentials/providers.ts'
import type { Credential } from '../../credentials/schema.ts'
import { mini } from '../../harnesses/mini.ts'
import type { Db } from '../../platform/db/db.ts'
import { isSameFamily } from '../models/stage-model.ts'
import type { GenerationOptions, NewGeneration } from '../schema.ts'
import { isRecommended, type ModelOption } from './resolve.ts'

const CREDENTIALS_MAX = 10_000

/** Lists every value that a new batch may name. Other values are refused. */
export async function readOptions(deps: CredentialDeps, owner: CredentialOwner): Promise<GenerationOptions> {
  const { credentials } = await listCredentials(deps, owner, { limit: CREDENTIALS_MAX })
  const models = listModelOptions(credentials, await listModels(deps.db, owner.id))
  const providers = new Set(models.map(({ provider }) => provider))
  const sandboxes = await listSandboxes(deps.db)
  const choices: GenerationChoices = {
    credentialStorage: deps.keyring !== undefined,
    models,
    reasoning: [...new Set(models.flatMap(({ reasoning }) => reasoning))],
    modelAccess: deps.keyring ? ['credential'] : ['environment', 'credential'],
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
    const reasoning = listLevelsByHarness([mini], model)[mini.id] ?? []
    const hasCredential = credentials.some((each) => each.kind === 'model' && each.provider === provider)
    if (!hasCredential || reasoning.length === 0) return []
    return [{ catalogId, label, provider, reasoning, prices: { input: prices.input, output: prices.output } }]
  })
}

async function listSandboxes(db: Db): Promise<GenerationOptions['sandboxes']> {
  const capabilities = new Map((await listLiveCapabilities(db)).map((capability) => [capability.sandbox, capability]))
  return sandboxChoices.map(({ id, name, provider }) => {
    const { available, detail, isolation } = capabilities.get(id) ?? UNAVAILABLE
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

type GenerationChoices = Omit<GenerationOptions, 'defaults'>

/** Maximum price of a default model in USD per million output tokens. */
const DEFAULT_OUTPUT_USD_MAX = 20

/** Selects sensible defaults. Null if a credential or a sandbox is missing. */
function selectDefaults(choices: GenerationChoices): NewGeneration | null {
  const sandbox = choices.sandboxes.find(({ available }) => available)
  const pair = selectPair(choices.models)
  if (!sandbox || !pair) return null
  const sandboxes = { sandbox: sandbox.id, harborEnvironment: sandbox.id }
  const { author, verifier, reasoning } = pair
  const models = { authorModel: author.catalogId, verifierModel: verifier.catalogId, reasoning, ...sandboxes }
  if (choices.modelAccess.includes('environment')) return { ...models, modelAccess: 'environment' }
  const modelCredentialId = findCredentialId(choices, author)
  if (modelCredentialId === undefined) return null
  const verifierCredentialId = verifier.provider === author.provider ? undefined : findCredentialId(choices, verifier)
  return { ...models, modelAccess: 'credential', modelCredentialId, verifierCredentialId }
}

const findCredentialId = ({ modelCredentials }: GenerationChoices, model: ModelOption): string | undefined =>
  modelCredentials.find(({ provider }) => provider === model.provider)?.id

type ModelPair = { author: ModelOption; verifier: ModelOption; reasoning: string }

/**
 * Selects recommended models of a moderate price if there are any. A verifier of another vendor is preferred, because models
 * of one vendor tend to overlook the same mistakes, if both support the default level. Otherwise the verifier is another
 * model of the author's provider, or the author itself.
 */
function selectPair(models: readonly ModelOption[]): ModelPair | undefined {
  const moderate = models.filter((model) => isRecommended(model) && model.prices.output <= DEFAULT_OUTPUT_USD_MAX)
  const recommended = models.filter(isRecommended)
  for (const author of [...moderate, ...recommended, ...models]) {
    const otherVendors = moderate.filter((other) => !isSameVendor(author, other))
    const sameProvider = models.filter((other) => other.provider === author.provider && other !== author)
    const notMoreExpensive = sameProvider.filter(({ prices }) => prices.output <= author.prices.output)
    const preferred = [...notMoreExpensive, ...sameProvider].filter((other) => moderate.includes(other))
    const otherVendorPairs = otherVendors.flatMap((verifier) => pairModels(author, verifier))
    const sameProviderPairs = [...preferred, ...notMoreExpensive, ...sameProvider, author].flatMap((verifier) =>
      pairModels(author, verifier),
    )
    const pair = otherVendorPairs.find(({ reasoning }) => reasoning === DEFAULT_LEVEL) ?? sameProviderPairs[0]
    if (pair) return pair
  }
  return undefined
}

const isSameVendor = (one: ModelOption, other: ModelOption): boolean =>
  isSameFamily(toNamedModel(one), toNamedModel(other))

const toNamedModel = ({ catalogId, provider }: ModelOption) => ({
  provider,
  name: catalogId.slice(catalogId.indexOf('/') + 1),
})

/** Pairs two models at the default level, or at the highest level that both support. Returns a list of one or none. */
function pairModels(author: ModelOption, verifier: ModelOption): ModelPair[] {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const reasoning = shared.find((level) => level === DEFAULT_LEVEL) ?? shared.at(-1)
  return reasoning === undefined ? [] : [{ author, verifier, reasoning }]
}

const DEFAULT_LEVEL = 'medium'
