import { isSameFamily } from '../models/served-model.ts'
import type { GenerationOptions, NewGeneration } from '../schema.ts'

export type GenerationChoices = Omit<GenerationOptions, 'defaults'>
type ModelOption = GenerationChoices['models'][number]

/** USD for a million tokens of output. Dearer ones are for those who name them. */
const USUAL_OUTPUT_USD = 20

/** Selects sensible defaults. Null if a credential or a sandbox is missing. */
export function selectDefaults(choices: GenerationChoices): NewGeneration | null {
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
 * A verifier of another house overlooks other mistakes than the author makes. Where no key opens one that can be asked as
 * usual, it is another model of the author's provider; the same twice where there is but one.
 */
function selectPair(models: readonly ModelOption[]): ModelPair | undefined {
  const usual = models.filter(({ prices }) => prices.output <= USUAL_OUTPUT_USD)
  for (const author of usual.length > 0 ? usual : models) {
    const strangers = usual.filter((other) => !isSameVendor(author, other))
    const others = models.filter((other) => other.provider === author.provider && other !== author)
    const affordable = others.filter(({ prices }) => prices.output <= author.prices.output)
    const foreign = strangers.flatMap((verifier) => pairModels(author, verifier))
    const own = [...affordable, ...others, author].flatMap((verifier) => pairModels(author, verifier))
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
