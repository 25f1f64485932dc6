import { randomUUID } from 'node:crypto'
import type { Catalog } from '../src/catalog/schema.ts'
import { suggestName } from '../src/platform/suggestion.ts'
import type { CompareRequest } from './comparison-scope.ts'
import { parseTimeoutMultiplier } from './engine.ts'
import { WrongUse } from './failure.ts'
import { parseNumber, parseOptionalNumber } from './flag-values.ts'
import { requireId } from './service.ts'

export type RequestFlags = {
  model: string[]
  harness?: string
  configuration: string[]
  sandbox?: string
  attempts: string
  budget?: string
  trialBudget?: string
  timeoutMultiplier?: string
  concurrency?: string
  skipCompleted?: boolean
  id?: string
}

/** Builds the request from flags and the catalog. `undefined` among the configurations means settings without one. */
export function buildRequest(
  catalog: Catalog,
  flags: RequestFlags,
  configurations: readonly (string | undefined)[],
): CompareRequest {
  const timeoutMultiplier = parseTimeoutMultiplier(flags.timeoutMultiplier)
  const models = flags.model.length === 0 ? ['reference'] : flags.model
  return {
    id: flags.id === undefined ? randomUUID() : requireId(flags.id, 'assay comparisons list'),
    models: models
      .flatMap((text) => buildChoices(catalog, text, flags.harness, configurations))
      .map((choice) => (timeoutMultiplier === undefined ? choice : { ...choice, timeoutMultiplier })),
    attempts: parseNumber(flags.attempts, '--attempts'),
    budgetUsd: parseOptionalNumber(flags.budget, '--budget'),
    trialBudgetUsd: parseOptionalNumber(flags.trialBudget, '--trial-budget'),
    concurrency: parseOptionalNumber(flags.concurrency, '--concurrency'),
    skipCompleted: flags.skipCompleted ?? false,
    ...chooseSandbox(catalog, flags.sandbox),
  }
}

function chooseSandbox(catalog: Catalog, chosenId: string | undefined) {
  const sandbox = catalog.sandboxes.find(({ id, available }) => (chosenId === undefined ? available : id === chosenId))
  const sandboxCredentialId = sandbox?.credentials[0]?.id
  if (sandbox && sandboxCredentialId !== undefined) return { sandbox: sandbox.id, sandboxCredentialId }
  throw new WrongUse(describeMissingSandbox(catalog, chosenId))
}

function describeMissingSandbox({ sandboxes }: Catalog, chosenId: string | undefined): string {
  if (chosenId === undefined)
    return `No sandbox is available. ${sandboxes.map(({ id, detail }) => `${id}: ${detail}`).join(' ')}`
  const ids = sandboxes.map(({ id }) => id)
  return `There is no sandbox ${chosenId}.${suggestName(chosenId, ids)} Known: ${ids.join(', ')}.`
}

/**
 * Parses a value of --model, `id@level=harness,harness`, and returns a choice for each configuration. The reference solution
 * and the no-op have no agent that could be configured, so they give one choice.
 */
function buildChoices(
  catalog: Catalog,
  text: string,
  defaultHarnesses: string | undefined,
  configurations: readonly (string | undefined)[],
) {
  const [setting = '', harnesses = defaultHarnesses] = text.split('=')
  const [catalogId = '', reasoningLevel] = setting.split('@')
  const model = catalog.models.find((each) => each.catalogId === catalogId)
  if (!model) {
    const known = catalog.models.map((each) => each.catalogId)
    throw toUnknownName('model', catalogId, known)
  }
  const credentialId = model.credentials[0]?.id
  if (credentialId === undefined)
    throw new WrongUse(
      `No credential gives access to ${catalogId}. Add one: assay credentials add model ${model.provider} --name <name>`,
    )
  const chosenHarnesses =
    harnesses === undefined ? listDefaultHarnesses(model) : harnesses.split(',').map((id) => id.trim())
  const knownHarnesses = catalog.harnesses.map(({ id }) => id)
  for (const id of chosenHarnesses) requireKnown('harness', id, knownHarnesses)
  if (reasoningLevel !== undefined) requireKnown('reasoning level', reasoningLevel, model.reasoningLevels)
  const choice = { catalogId, credentialId, harnesses: chosenHarnesses, reasoningLevel }
  if (model.provider === 'none') return [choice]
  return configurations.map((configuration) => ({ ...choice, configuration }))
}

/** Harness of a model for which none is named. Models without an agent use all their harnesses. */
export const DEFAULT_HARNESS = 'mini'

const listDefaultHarnesses = ({ provider, harnesses }: Catalog['models'][number]): string[] =>
  provider !== 'none' && harnesses.includes(DEFAULT_HARNESS) ? [DEFAULT_HARNESS] : harnesses

function requireKnown(kind: string, name: string, known: readonly string[]): void {
  if (!known.includes(name)) throw toUnknownName(kind, name, known)
}

const toUnknownName = (kind: string, name: string, known: readonly string[]): WrongUse =>
  new WrongUse(`Unknown ${kind} ${name}.${suggestName(name, known)} Available: ${known.join(', ')}.`)

type ComparedModels = { models: readonly { catalogId: string }[] }

/** Returns a warning for each model that may know some of the tasks, because they were merged before its cutoff. */
export function warnOfKnownTasks(catalog: Catalog, { models }: ComparedModels, mergedAt: readonly string[]): string[] {
  const comparedIds = new Set(models.map(({ catalogId }) => catalogId))
  return catalog.models.flatMap(({ catalogId, knowledgeCutoff }) => {
    if (!comparedIds.has(catalogId) || knowledgeCutoff === null) return []
    // A cutoff is a month, so only the month of the time is compared.
    const mergedBefore = mergedAt.filter((time) => time.slice(0, knowledgeCutoff.length) <= knowledgeCutoff).length
    if (mergedBefore === 0) return []
    return [
      `${catalogId} has a knowledge cutoff of ${knowledgeCutoff}: ${mergedBefore} of ${mergedAt.length} tasks were merged before that, and it may know them.`,
    ]
  })
}
