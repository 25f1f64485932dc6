import type { GenerationOptions, NewGeneration } from './schema.ts'

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
  const modelCredentialId = choices.modelCredentials.find(({ provider }) => provider === author.provider)?.id
  return modelCredentialId === undefined ? null : { ...models, modelAccess: 'credential', modelCredentialId }
}

type Pair = { author: ModelOption; verifier: ModelOption; reasoning: string }

/** Two of one provider, so that one credential opens both; the same twice where there is but one. */
function pairOf(models: readonly ModelOption[]): Pair | undefined {
  const usual = models.filter(({ prices }) => prices.output <= USUAL_OUTPUT_USD)
  for (const author of usual.length > 0 ? usual : models) {
    const others = models.filter((other) => other.provider === author.provider && other !== author)
    const affordable = others.filter(({ prices }) => prices.output <= author.prices.output)
    const found = [...affordable, ...others, author].flatMap((verifier) => pairWith(author, verifier))[0]
    if (found) return found
  }
  return undefined
}

function pairWith(author: ModelOption, verifier: ModelOption): Pair[] {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const reasoning = shared.find((level) => level === USUAL_LEVEL) ?? shared.at(-1)
  return reasoning === undefined ? [] : [{ author, verifier, reasoning }]
}

const USUAL_LEVEL = 'medium'
