import { z } from 'zod'
import { type FieldError, invalidRequest, Problem } from '../../platform/problem.ts'
import { Generation, type GenerationOptions, type NewGeneration } from '../schema.ts'

/** Settings of a generation as they are stored: with the ids of the model credentials in `keys`, named or default. */
export const StoredGeneration = Generation.extend({ keys: z.object({ author: z.uuid(), verifier: z.uuid() }) })
export type StoredGeneration = z.infer<typeof StoredGeneration>

/** Lists every credential that a generation uses. */
export const listCredentialIds = ({ keys, sandboxCredentialId, harborCredentialId }: StoredGeneration): string[] => [
  keys.author,
  keys.verifier,
  sandboxCredentialId,
  harborCredentialId,
]

/** Fills in defaults and reports all mistakes at once. Values that the options do not list are refused. */
export function resolveGeneration(options: GenerationOptions, request: NewGeneration | undefined): StoredGeneration {
  if (request === undefined) return resolveGeneration(options, requireDefaults(options))
  const models = resolveModels(options, request)
  const keys = resolveKeys(options, request, models)
  const sandbox = resolveSandbox(options.sandboxes, options.sandboxCredentials, {
    field: 'sandbox',
    id: request.sandbox,
    credentialField: 'sandboxCredentialId',
    credentialId: request.sandboxCredentialId,
  })
  const harbor = resolveSandbox(options.harborEnvironments, options.harborCredentials, {
    field: 'harborEnvironment',
    id: request.harborEnvironment,
    credentialField: 'harborCredentialId',
    credentialId: request.harborCredentialId,
  })
  const errors = [...models.errors, ...keys.errors, ...sandbox.errors, ...harbor.errors]
  if (errors.length > 0) throw toProblem(errors)
  const { authorModel, verifierModel, reasoning, modelAccess } = request
  const usesCredential = modelAccess === 'credential'
  return {
    authorModel,
    verifierModel,
    reasoning,
    modelAccess,
    modelCredentialId: usesCredential ? keys.author : null,
    verifierCredentialId: usesCredential ? keys.verifier : null,
    sandbox: request.sandbox,
    sandboxCredentialId: sandbox.credentialId,
    harborEnvironment: request.harborEnvironment,
    harborCredentialId: harbor.credentialId,
    keys: { author: keys.author, verifier: keys.verifier },
  }
}

/** Lists warnings about an accepted request. */
export const listGenerationWarnings = (
  { models }: GenerationOptions,
  request: Pick<NewGeneration, 'authorModel' | 'verifierModel'>,
): string[] => [
  ...(request.authorModel === request.verifierModel
    ? ['The verifier is the same model as the author: it judges its own work (self_verified).']
    : []),
  ...warnOfSmallModels(models, request),
]

function requireDefaults({ credentialStorage, defaults }: GenerationOptions): NewGeneration {
  if (credentialStorage)
    throw toProblem([
      fieldError('', 'required', 'Name the generation. GET generation-options lists the possible values.'),
    ])
  if (defaults) return defaults
  throw toProblem([
    fieldError(
      '',
      'no_defaults',
      'There are no defaults: this server has no key for a model, or no sandbox. Name the generation.',
    ),
  ])
}

const fieldError = (field: string, code: string, message: string): FieldError => ({
  pointer: field === '' ? '/generation' : `/generation/${field}`,
  code,
  message,
})

const toProblem = (errors: FieldError[]): Problem =>
  new Problem(invalidRequest, `${errors[0]?.pointer}: ${errors[0]?.message}`, { errors })

export type ModelOption = GenerationOptions['models'][number]
type ResolvedModels = { author: ModelOption | undefined; verifier: ModelOption | undefined; errors: FieldError[] }

function resolveModels({ models }: GenerationOptions, request: NewGeneration): ResolvedModels {
  const find = (id: string) => models.find(({ catalogId }) => catalogId === id)
  const [author, verifier] = [find(request.authorModel), find(request.verifierModel)]
  const errors = [
    ...(author ? [] : [fieldError('authorModel', 'unknown_model', NO_MODEL)]),
    ...(verifier ? [] : [fieldError('verifierModel', 'unknown_model', NO_MODEL)]),
  ]
  const withoutLevel = [author, verifier].find((model) => model && !model.reasoning.includes(request.reasoning))
  if (withoutLevel)
    errors.push(
      fieldError(
        'reasoning',
        'unknown_level',
        `${withoutLevel.catalogId} supports only ${withoutLevel.reasoning.join(', ')}.`,
      ),
    )
  return { author, verifier, errors }
}

const NO_MODEL = 'The catalog has no such model, or this workspace has no credential that opens it.'

/** Ids of the model credentials. Empty if there are errors. */
type ResolvedKeys = { author: string; verifier: string; errors: FieldError[] }

function resolveKeys(
  options: GenerationOptions,
  request: NewGeneration,
  { author, verifier }: ResolvedModels,
): ResolvedKeys {
  if (!options.modelAccess.includes(request.modelAccess))
    return withoutKeys(
      fieldError('modelAccess', 'access_not_offered', `It must be one of: ${options.modelAccess.join(', ')}.`),
    )
  return request.modelAccess === 'environment'
    ? resolveServerKeys(options, request, { author, verifier })
    : resolveNamedKeys(options, request, { author, verifier })
}

const withoutKeys = (...errors: FieldError[]): ResolvedKeys => ({ author: '', verifier: '', errors })

type RequestedModels = Pick<ResolvedModels, 'author' | 'verifier'>

function resolveServerKeys(
  { modelCredentials }: GenerationOptions,
  request: NewGeneration,
  { author, verifier }: RequestedModels,
): ResolvedKeys {
  const field = (['modelCredentialId', 'verifierCredentialId'] as const).find((name) => request[name] !== undefined)
  if (field) return withoutKeys(fieldError(field, 'unexpected', 'Not allowed with the server’s own keys.'))
  const keyOf = (model: ModelOption | undefined) =>
    modelCredentials.find(({ provider }) => provider === model?.provider)?.id ?? ''
  return { author: keyOf(author), verifier: keyOf(verifier), errors: [] }
}

function resolveNamedKeys(
  { modelCredentials }: GenerationOptions,
  request: NewGeneration,
  { author, verifier }: RequestedModels,
): ResolvedKeys {
  const authorKey = request.modelCredentialId?.toLowerCase()
  if (authorKey === undefined)
    return withoutKeys(fieldError('modelCredentialId', 'required', 'Name the credential of the models.'))
  const verifierKey = request.verifierCredentialId?.toLowerCase() ?? authorKey
  const fits = (id: string, model: ModelOption | undefined) =>
    !model || modelCredentials.some((each) => each.id === id && each.provider === model.provider)
  const errors = [
    ...(fits(authorKey, author) ? [] : [toCredentialMisfit('modelCredentialId', 'model', author?.provider)]),
    ...(fits(verifierKey, verifier) ? [] : [toCredentialMisfit('verifierCredentialId', 'model', verifier?.provider)]),
  ]
  return { author: authorKey, verifier: verifierKey, errors }
}

const toCredentialMisfit = (field: string, kind: string, provider: string | undefined): FieldError =>
  fieldError(field, 'credential_misfit', `This workspace has no such ${kind} credential for ${provider}.`)

type RequestedSandbox = { field: string; id: string; credentialField: string; credentialId: string | undefined }

function resolveSandbox(
  sandboxes: GenerationOptions['sandboxes'],
  credentials: GenerationOptions['sandboxCredentials'],
  { field, id, credentialField, credentialId }: RequestedSandbox,
): { credentialId: string; errors: FieldError[] } {
  const sandbox = sandboxes.find((each) => each.id === id)
  const fitting = credentials.filter(({ provider }) => provider === sandbox?.provider)
  const chosen =
    credentialId === undefined ? fitting[0] : fitting.find((each) => each.id === credentialId.toLowerCase())
  const errors: FieldError[] = []
  if (!sandbox) errors.push(fieldError(field, 'unknown_sandbox', 'The catalog has no such sandbox.'))
  else if (!sandbox.available)
    errors.push(fieldError(field, 'sandbox_not_offered', `${sandbox.name}: ${sandbox.detail}`))
  if (sandbox && !chosen) errors.push(toCredentialMisfit(credentialField, 'sandbox', sandbox.provider))
  return { credentialId: chosen?.id ?? '', errors }
}

/** Minimum price of a recommended model in USD per million output tokens. The catalog has no other sign of capability. */
const RECOMMENDED_OUTPUT_USD_MIN = 6

/** Returns true if a model is recommended as author or verifier. Cheaper ones write tasks that are rejected more often. */
export const isRecommended = ({ prices }: ModelOption): boolean => prices.output >= RECOMMENDED_OUTPUT_USD_MIN

/** Warns about an author or verifier below the recommendation. */
function warnOfSmallModels(
  models: readonly ModelOption[],
  { authorModel, verifierModel }: Pick<NewGeneration, 'authorModel' | 'verifierModel'>,
): string[] {
  const roles = [
    ['author', authorModel],
    ['verifier', verifierModel],
  ] as const
  return roles.flatMap(([role, id]) =>
    models.some((model) => model.catalogId === id && !isRecommended(model))
      ? [
          `The ${role} model ${id} is below the recommendation of $${RECOMMENDED_OUTPUT_USD_MIN} per million output tokens: expect more rejected tasks, and review the others carefully.`,
        ]
      : [],
  )
}
