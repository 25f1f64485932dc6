import { isSameFamily } from '../models/served-model.ts'
import type { GenerationOptions, NewGeneration } from '../schema.ts'

export type Choices = Omit<GenerationOptions, 'defaults'>
type ModelOption = Choices['models'][number]

/** USD for a million tokens of output. Dearer ones are for those who name them. */
const USUAL_OUTPUT_USD = 20

/** What somebody would choose who does not care. Null: it takes a credential or a sandbox first. */
export function defaultsIn(choices: Choices): NewGeneration | null {
  const sandbox = choices.sandboxes.find(({ available }) => available)
  const pair = pairOf(choices.models)
  if (!sandbox || !pair) return null
  const places = { sandbox: sandbox.id, harborEnvironment: sandbox.id }
  const { author, verifier, reasoning } = pair
  const models = { authorModel: author.catalogId, verifierModel: verifier.catalogId, reasoning, ...places }
  if (choices.modelAccess.includes('environment')) return { ...models, modelAccess: 'environment' }
  const modelCredentialId = keyOf(choices, author)
  if (modelCredentialId === undefined) return null
  const others = verifier.provider === author.provider ? undefined : keyOf(choices, verifier)
  const verifierKey = others === undefined ? {} : { verifierCredentialId: others }
  return { ...models, modelAccess: 'credential', modelCredentialId, ...verifierKey }
}

const keyOf = ({ modelCredentials }: Choices, model: ModelOption): string | undefined =>
  modelCredentials.find(({ provider }) => provider === model.provider)?.id

type Pair = { author: ModelOption; verifier: ModelOption; reasoning: string }

/**
 * A verifier of another house overlooks other mistakes than the author makes. Where no key opens one that can be asked as
 * usual, it is another model of the author's provider; the same twice where there is but one.
 */
function pairOf(models: readonly ModelOption[]): Pair | undefined {
  const usual = models.filter(({ prices }) => prices.output <= USUAL_OUTPUT_USD)
  for (const author of usual.length > 0 ? usual : models) {
    const strangers = usual.filter((other) => !isOfOneHouse(author, other))
    const others = models.filter((other) => other.provider === author.provider && other !== author)
    const affordable = others.filter(({ prices }) => prices.output <= author.prices.output)
    const foreign = strangers.flatMap((verifier) => pairWith(author, verifier))
    const own = [...affordable, ...others, author].flatMap((verifier) => pairWith(author, verifier))
    const found = foreign.find(({ reasoning }) => reasoning === USUAL_LEVEL) ?? own[0]
    if (found) return found
  }
  return undefined
}

const isOfOneHouse = (one: ModelOption, other: ModelOption): boolean => isSameFamily(namedIn(one), namedIn(other))

const namedIn = ({ catalogId, provider }: ModelOption) => ({
  ...{ provider, name: catalogId.slice(catalogId.indexOf('/') + 1) },
})

function pairWith(author: ModelOption, verifier: ModelOption): Pair[] {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const reasoning = shared.find((level) => level === USUAL_LEVEL) ?? shared.at(-1)
  return reasoning === undefined ? [] : [{ author, verifier, reasoning }]
}

const USUAL_LEVEL = 'medium'
