import { isCustomHarness } from '../catalog/custom-harnesses/custom-harnesses.ts'
import { canDrive, levelsByHarness, listHarnesses } from '../catalog/harnesses.ts'
import { findWire, type Model } from '../catalog/model.ts'
import { findModel } from '../catalog/models.ts'
import { findSandboxChoice } from '../catalog/sandboxes.ts'
import { findCredential, type Tools } from '../credentials/credentials.ts'
import type { Credential } from '../credentials/schema.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { Db } from '../platform/db/db.ts'
import { type FieldError, invalidRequest, Problem } from '../platform/problem.ts'
import { trialCount } from './plan.ts'
import { type ModelChoice, type NewComparison, TRIALS_MAX } from './shapes/schema.ts'
import type { NewSetting } from './sql.ts'

/** One of the things that a request may not ask for. */
const wrong = (pointer: string, code: string, message: string): FieldError => ({ pointer, code, message })

export function refuse(errors: FieldError[]): never {
  const [first] = errors
  throw new Problem(invalidRequest, first ? `${first.pointer}: ${first.message}` : 'It cannot be compared.', { errors })
}

/** The settings that the choices of models make, in their order; or every mistake in them. */
export async function settingsOf(db: Db, workspaceId: string, models: readonly ModelChoice[]): Promise<NewSetting[]> {
  const errors: FieldError[] = []
  const settings: NewSetting[] = []
  const known = await listHarnesses(db, workspaceId)
  for (const [index, choice] of models.entries()) {
    const model = await findModel(db, workspaceId, choice.catalogId)
    if (!model) errors.push(wrong(`/models/${index}/catalogId`, 'unknown_model', 'The catalog has no such model.'))
    else errors.push(...levelErrors(model, choice, index), ...addSettings(settings, { known, model, choice, index }))
  }
  return errors.length > 0 ? refuse(errors) : settings
}

function levelErrors(model: Model, { reasoningLevel }: ModelChoice, index: number): FieldError[] {
  if (reasoningLevel === undefined || findWire(model, reasoningLevel)) return []
  const message = `This model has the levels ${model.levels.map(({ level }) => level).join(', ')}.`
  return [wrong(`/models/${index}/reasoningLevel`, 'unknown_level', message)]
}

type Chosen = { known: readonly Harness[]; model: Model; choice: ModelChoice; index: number }

function addSettings(settings: NewSetting[], { known, model, choice, index }: Chosen): FieldError[] {
  return choice.harnesses.flatMap((id, place) => {
    const setting = settingOf(
      known.find((harness) => harness.id === id),
      model,
      choice,
    )
    const pointer = `/models/${index}/harnesses/${place}`
    if (!setting) return harnessErrors(levelsByHarness(known, model), model, levelOf(model, choice), { id, pointer })
    if (settings.some((other) => other.id === setting.id))
      return [wrong(pointer, 'duplicate_setting', 'The same model, harness and level stands here twice.')]
    settings.push(setting)
    return []
  })
}

/** A level that the model does not have is named elsewhere, and once. */
function harnessErrors(
  levels: Record<string, string[]>,
  model: Model,
  level: string,
  { id, pointer }: { id: string; pointer: string },
): FieldError[] {
  const own = levels[id]
  if (!own) return [wrong(pointer, 'unknown_harness', `This model works with ${Object.keys(levels).join(', ')}.`)]
  if (!findWire(model, level)) return []
  const message = `${id} cannot ask this model for ${level}, only for ${own.join(', ')}.`
  return [wrong(pointer, 'level_out_of_reach', message)]
}

const levelOf = (model: Model, { reasoningLevel }: ModelChoice): string => reasoningLevel ?? model.defaultLevel

function settingOf(harness: Harness | undefined, model: Model, choice: ModelChoice): NewSetting | undefined {
  const level = levelOf(model, choice)
  if (!harness || !canDrive(harness, model, level)) return undefined
  return {
    id: `${model.catalogId}|${harness.id}|${level}`,
    catalog_id: model.catalogId,
    name: model.name,
    label: model.label,
    provider: model.provider,
    custom: model.custom || isCustomHarness(harness.id),
    harness: harness.id,
    harness_version: harness.version,
    reasoning_level: level,
    credential_id: choice.credentialId,
  }
}

/** Whether the credentials are there and fit what they are given for, and whether there is such a sandbox. */
export async function requireCredentials(tools: Tools, workspaceId: string, wish: NewComparison): Promise<void> {
  const errors: FieldError[] = []
  for (const [index, { catalogId, credentialId }] of wish.models.entries()) {
    const provider = (await findModel(tools.db, workspaceId, catalogId))?.provider ?? ''
    const credential = await findCredential(tools, workspaceId, credentialId)
    if (!fits(credential, 'model', provider)) errors.push(misfit(`/models/${index}/credentialId`, 'model', provider))
  }
  const sandbox = findSandboxChoice(wish.sandbox)
  if (!sandbox) errors.push(wrong('/sandbox', 'unknown_sandbox', 'The catalog has no such sandbox.'))
  const credential = await findCredential(tools, workspaceId, wish.sandboxCredentialId)
  if (sandbox && !fits(credential, 'sandbox', sandbox.provider))
    errors.push(misfit('/sandboxCredentialId', 'sandbox', sandbox.provider))
  if (errors.length > 0) refuse(errors)
}

const fits = (credential: Credential | undefined, kind: Credential['kind'], provider: string): boolean =>
  credential?.kind === kind && credential.provider === provider

const misfit = (pointer: string, kind: string, provider: string): FieldError =>
  wrong(pointer, 'credential_misfit', `This workspace has no such ${kind} credential for ${provider}.`)

export function requireSize(tasks: number, settings: number, attempts: number): void {
  const trials = trialCount({ tasks, settings, attempts })
  if (trials > TRIALS_MAX)
    refuse([wrong('/models', 'too_many_trials', `That makes ${trials} trials; the most is ${TRIALS_MAX}.`)])
}
