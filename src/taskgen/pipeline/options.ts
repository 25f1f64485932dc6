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
import { isSameFamily } from '../models/served-model.ts'
import type { GenerationOptions, NewGeneration } from '../schema.ts'
import { isRecommended } from './resolve.ts'

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

type GenerationChoices = Omit<GenerationOptions, 'defaults'>
type ModelOption = GenerationChoices['models'][number]

/** Maximum price of a default model in USD per million output tokens. */
const USUAL_OUTPUT_USD = 20

/** Selects sensible defaults. Null if a credential or a sandbox is missing. */
function selectDefaults(choices: GenerationChoices): NewGeneration | null {
  const sandbox = choices.sandboxes.find(({ available }) => available)
  const pair = selectPair(choices.models)
  if (!sandbox || !pair) return null
  const places = { sandbox: sandbox.id, harborEnvironment: sandbox.id }
  const { author, verifier, reasoning } = pair
  const models = { authorModel: author.catalogId, verifierModel: verifier.catalogId, reasoning, ...places }
  if (choices.modelAccess.includes('environment')) return { ...models, modelAccess: 'environment' }
  const modelCredentialId = findKey(choices, author)
  if (modelCredentialId === undefined) return null
  const others = verifier.provider === author.provider ? undefined : findKey(choices, verifier)
  return { ...models, modelAccess: 'credential', modelCredentialId, verifierCredentialId: others }
}

const findKey = ({ modelCredentials }: GenerationChoices, model: ModelOption): string | undefined =>
  modelCredentials.find(({ provider }) => provider === model.provider)?.id

type ModelPair = { author: ModelOption; verifier: ModelOption; reasoning: string }

/**
 * Selects recommended models of a moderate price if there are any. A verifier of another vendor is preferred, because it
 * overlooks other mistakes than the author makes; otherwise it is another model of the author's provider, or the same.
 */
function selectPair(models: readonly ModelOption[]): ModelPair | undefined {
  const usual = models.filter((model) => isRecommended(model) && model.prices.output <= USUAL_OUTPUT_USD)
  const recommended = models.filter(isRecommended)
  for (const author of [...usual, ...recommended, ...models]) {
    const strangers = usual.filter((other) => !isSameVendor(author, other))
    const others = models.filter((other) => other.provider === author.provider && other !== author)
    const affordable = others.filter(({ prices }) => prices.output <= author.prices.output)
    const preferred = [...affordable, ...others].filter((other) => usual.includes(other))
    const foreign = strangers.flatMap((verifier) => pairModels(author, verifier))
    const own = [...preferred, ...affordable, ...others, author].flatMap((verifier) => pairModels(author, verifier))
    const found = foreign.find(({ reasoning }) => reasoning === USUAL_LEVEL) ?? own[0]
    if (found) return found
  }
  return undefined
}

const isSameVendor = (one: ModelOption, other: ModelOption): boolean =>
  isSameFamily(toNamedModel(one), toNamedModel(other))

const toNamedModel = ({ catalogId, provider }: ModelOption) => ({
  provider,
  name: catalogId.slice(catalogId.indexOf('/') + 1),
})

function pairModels(author: ModelOption, verifier: ModelOption): ModelPair[] {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const reasoning = shared.find((level) => level === USUAL_LEVEL) ?? shared.at(-1)
  return reasoning === undefined ? [] : [{ author, verifier, reasoning }]
}

const USUAL_LEVEL = 'medium'
