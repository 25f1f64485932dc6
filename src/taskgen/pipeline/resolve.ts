import { z } from 'zod'
import { type FieldError, invalidRequest, Problem } from '../../platform/problem.ts'
import { Generation, type GenerationOptions, type NewGeneration } from '../schema.ts'

/** As it is stored: also which credential opens which model, however that was said. */
export const StoredGeneration = Generation.extend({ keys: z.object({ author: z.uuid(), verifier: z.uuid() }) })
export type StoredGeneration = z.infer<typeof StoredGeneration>

/** Every credential that it names. */
export const credentialsOf = ({ keys, sandboxCredentialId, harborCredentialId }: StoredGeneration): string[] => [
  ...[keys.author, keys.verifier, sandboxCredentialId, harborCredentialId],
]

/** Every default filled in, and every mistake named at once: what the options do not list is refused. */
export function resolveGeneration(options: GenerationOptions, wish: NewGeneration | undefined): StoredGeneration {
  if (wish === undefined) return resolveGeneration(options, defaultsOf(options))
  const models = modelsIn(options, wish)
  const keys = keysIn(options, wish, models)
  const sandbox = placeIn(options.sandboxes, options.sandboxCredentials, {
    ...{ field: 'sandbox', id: wish.sandbox, credentialField: 'sandboxCredentialId' },
    credentialId: wish.sandboxCredentialId,
  })
  const harbor = placeIn(options.harborEnvironments, options.harborCredentials, {
    ...{ field: 'harborEnvironment', id: wish.harborEnvironment, credentialField: 'harborCredentialId' },
    credentialId: wish.harborCredentialId,
  })
  const errors = [...models.errors, ...keys.errors, ...sandbox.errors, ...harbor.errors]
  if (errors.length > 0) throw refused(errors)
  const { authorModel, verifierModel, reasoning, modelAccess } = wish
  const isNamed = modelAccess === 'credential'
  return {
    ...{ authorModel, verifierModel, reasoning, modelAccess },
    modelCredentialId: isNamed ? keys.author : null,
    verifierCredentialId: isNamed ? keys.verifier : null,
    ...{ sandbox: wish.sandbox, sandboxCredentialId: sandbox.credentialId },
    ...{ harborEnvironment: wish.harborEnvironment, harborCredentialId: harbor.credentialId },
    keys: { author: keys.author, verifier: keys.verifier },
  }
}

/** What a person is told at once, and may want. */
export const warningsOf = ({
  authorModel,
  verifierModel,
}: Pick<NewGeneration, 'authorModel' | 'verifierModel'>): string[] =>
  authorModel === verifierModel
    ? ['The verifier is the same model as the author: it judges its own work (self_verified).']
    : []

function defaultsOf({ credentialStorage, defaults }: GenerationOptions): NewGeneration {
  if (credentialStorage) throw refused([wrong('', 'required', 'Name it: GET generation-options shows what there is.')])
  if (defaults) return defaults
  throw refused([wrong('', 'no_defaults', 'There are none: this server has no key of a model, or offers no sandbox.')])
}

const wrong = (field: string, code: string, message: string): FieldError => ({
  ...{ pointer: field === '' ? '/generation' : `/generation/${field}`, code, message },
})

const refused = (errors: FieldError[]): Problem =>
  new Problem(invalidRequest, `${errors[0]?.pointer}: ${errors[0]?.message}`, { errors })

type ModelOption = GenerationOptions['models'][number]
type Models = { author: ModelOption | undefined; verifier: ModelOption | undefined; errors: FieldError[] }

function modelsIn({ models }: GenerationOptions, wish: NewGeneration): Models {
  const find = (id: string) => models.find(({ catalogId }) => catalogId === id)
  const [author, verifier] = [find(wish.authorModel), find(wish.verifierModel)]
  const errors = [
    ...(author ? [] : [wrong('authorModel', 'unknown_model', NO_MODEL)]),
    ...(verifier ? [] : [wrong('verifierModel', 'unknown_model', NO_MODEL)]),
  ]
  const lacking = [author, verifier].find((model) => model && !model.reasoning.includes(wish.reasoning))
  if (lacking)
    errors.push(wrong('reasoning', 'unknown_level', `${lacking.catalogId} has ${lacking.reasoning.join(', ')}.`))
  return { author, verifier, errors }
}

const NO_MODEL = 'The catalog has no such model, or this workspace has no credential that opens it.'

type Keys = { author: string; verifier: string; errors: FieldError[] }

function keysIn(options: GenerationOptions, wish: NewGeneration, { author, verifier }: Models): Keys {
  if (!options.modelAccess.includes(wish.modelAccess))
    return none(wrong('modelAccess', 'access_not_offered', `It is one of ${options.modelAccess.join(', ')}.`))
  return wish.modelAccess === 'environment'
    ? keysOfServer(options, wish, { author, verifier })
    : keysNamed(options, wish, { author, verifier })
}

const none = (...errors: FieldError[]): Keys => ({ author: '', verifier: '', errors })

type Pair = Pick<Models, 'author' | 'verifier'>

function keysOfServer({ modelCredentials }: GenerationOptions, wish: NewGeneration, { author, verifier }: Pair): Keys {
  const field = (['modelCredentialId', 'verifierCredentialId'] as const).find((name) => wish[name] !== undefined)
  if (field) return none(wrong(field, 'unexpected', 'With the server’s own keys no credential is named.'))
  const keyOf = (model: ModelOption | undefined) =>
    modelCredentials.find(({ provider }) => provider === model?.provider)?.id ?? ''
  return { author: keyOf(author), verifier: keyOf(verifier), errors: [] }
}

function keysNamed({ modelCredentials }: GenerationOptions, wish: NewGeneration, { author, verifier }: Pair): Keys {
  const own = wish.modelCredentialId?.toLowerCase()
  if (own === undefined) return none(wrong('modelCredentialId', 'required', 'Name the credential of the models.'))
  const others = wish.verifierCredentialId?.toLowerCase() ?? own
  const fits = (id: string, model: ModelOption | undefined) =>
    !model || modelCredentials.some((each) => each.id === id && each.provider === model.provider)
  const errors = [
    ...(fits(own, author) ? [] : [misfit('modelCredentialId', 'model', author?.provider)]),
    ...(fits(others, verifier) ? [] : [misfit('verifierCredentialId', 'model', verifier?.provider)]),
  ]
  return { author: own, verifier: others, errors }
}

const misfit = (field: string, kind: string, provider: string | undefined): FieldError =>
  wrong(field, 'credential_misfit', `This workspace has no such ${kind} credential for ${provider}.`)

type Place = { field: string; id: string; credentialField: string; credentialId: string | undefined }

function placeIn(
  sandboxes: GenerationOptions['sandboxes'],
  credentials: GenerationOptions['sandboxCredentials'],
  { field, id, credentialField, credentialId }: Place,
): { credentialId: string; errors: FieldError[] } {
  const found = sandboxes.find((sandbox) => sandbox.id === id)
  const own = credentials.filter(({ provider }) => provider === found?.provider)
  const chosen = credentialId === undefined ? own[0] : own.find((each) => each.id === credentialId.toLowerCase())
  const errors: FieldError[] = []
  if (!found) errors.push(wrong(field, 'unknown_sandbox', 'The catalog has no such sandbox.'))
  else if (!found.available) errors.push(wrong(field, 'sandbox_not_offered', `${found.name}: ${found.detail}`))
  if (found && !chosen) errors.push(misfit(credentialField, 'sandbox', found.provider))
  return { credentialId: chosen?.id ?? '', errors }
}
