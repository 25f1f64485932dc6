import type { CatalogModel } from '../../../src/catalog/schema.ts'
import type { ModelChoice } from '../../../src/comparisons/shapes/schema.ts'

/** A row of the form: one model at one level with some harnesses. */
export type DraftModel = {
  /** Identifies the row: the same model can be added twice. */
  key: number
  catalogId: string
  credentialId: string
  level: string
  harnesses: string[]
  /** False for the reference solution and the no-op, which run no agent. */
  isConfigurable: boolean
}

/** Entry among the chosen configurations that means: run the agents without a configuration. */
export const NO_CONFIGURATION = 'none'

/** The form of a new comparison. Numbers stay texts until they are sent. */
export type Draft = {
  models: DraftModel[]
  /** References of configurations. Every model runs with each of them. */
  configurations: string[]
  sandbox: string
  attempts: string
  budget: string
  trialBudget: string
  concurrency: string
  skipCompleted: boolean
}

export const EMPTY_DRAFT: Draft = {
  models: [],
  configurations: [NO_CONFIGURATION],
  sandbox: '',
  attempts: '1',
  budget: '',
  trialBudget: '',
  concurrency: '',
  skipCompleted: false,
}

/**
 * Adds a model with its default level and the first harness that supports the level. The controls, which need no model,
 * are added with all their harnesses.
 */
export function addModel(models: readonly DraftModel[], model: CatalogModel): DraftModel[] {
  const key = 1 + Math.max(0, ...models.map((each) => each.key))
  const level = model.defaultReasoningLevel
  const isControl = model.provider === 'none'
  const supported = listHarnesses(model, level)
  return [
    ...models,
    {
      key,
      catalogId: model.catalogId,
      credentialId: model.credentials[0]?.id ?? '',
      level,
      harnesses: isControl ? supported : supported.slice(0, 1),
      isConfigurable: !isControl,
    },
  ]
}

/** Lists the harnesses that support a level of the model. */
export const listHarnesses = (model: CatalogModel, level: string): string[] =>
  model.harnesses.filter((harness) => model.harnessLevels[harness]?.includes(level) ?? true)

const toNumber = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text))

/** Returns the fields of a create request that the quote depends on, or undefined while nothing is chosen. */
export function toQuoteBody(draft: Draft) {
  const { models, configurations, attempts, budget, trialBudget, concurrency, skipCompleted } = draft
  const completeRows = models.filter(({ harnesses, credentialId }) => harnesses.length > 0 && credentialId !== '')
  if (completeRows.length === 0) return undefined
  return {
    models: completeRows.flatMap((model) => toChoices(model, configurations)),
    attempts: toNumber(attempts) ?? 1,
    budgetUsd: toNumber(budget),
    trialBudgetUsd: toNumber(trialBudget),
    concurrency: toNumber(concurrency),
    skipCompleted,
  }
}

/** Returns one choice per configuration. Rows without an agent are not configurable and give one choice. */
function toChoices(model: DraftModel, configurations: readonly string[]): ModelChoice[] {
  const { catalogId, credentialId, harnesses, level: reasoningLevel, isConfigurable } = model
  const choice = { catalogId, credentialId, harnesses, reasoningLevel }
  if (!isConfigurable || configurations.length === 0) return [choice]
  return configurations.map((configuration) =>
    configuration === NO_CONFIGURATION ? choice : { ...choice, configuration },
  )
}

/** Returns the command line that creates the same comparison. */
export function toCommand(scope: { kind: string; name: string }, draft: Draft): string {
  const toFlag = (name: string, value: string): string[] => (value.trim() === '' ? [] : [name, value.trim()])
  const hasConfigurations = draft.configurations.some((each) => each !== NO_CONFIGURATION)
  const words = [
    'assay compare',
    ...(scope.kind === 'repository' ? ['--repo', scope.name] : [scope.name]),
    ...draft.models
      .filter(({ harnesses }) => harnesses.length > 0)
      .flatMap(({ catalogId, level, harnesses }) => ['--model', `${catalogId}@${level}=${harnesses.join(',')}`]),
    ...(hasConfigurations ? draft.configurations.flatMap((each) => ['--configuration', each]) : []),
    ...toFlag('--sandbox', draft.sandbox),
    ...(draft.attempts === '1' ? [] : toFlag('--attempts', draft.attempts)),
    ...toFlag('--budget', draft.budget),
    ...toFlag('--trial-budget', draft.trialBudget),
    ...toFlag('--concurrency', draft.concurrency),
    ...(draft.skipCompleted ? ['--skip-completed'] : []),
  ]
  return words.join(' ')
}
