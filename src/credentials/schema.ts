import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'

const time = z.iso.datetime()
const label = z.string().trim().min(1).max(200)

export const CredentialKind = z
  .enum(['model', 'sandbox', 'registry', 'code-host'])
  .meta({ id: 'CredentialKind', description: 'The kind of external system that a credential is for.' })
export type CredentialKind = z.infer<typeof CredentialKind>

/** Clouds that host models of several vendors behind their own authentication. */
export const Cloud = z
  .enum(['bedrock', 'vertex', 'azure'])
  .meta({ id: 'Cloud', description: 'A cloud that hosts a model and authenticates its calls.' })
export type Cloud = z.infer<typeof Cloud>

export const Credential = z
  .object({
    id: z.uuid(),
    kind: CredentialKind,
    provider: z.string(),
    name: z.string(),
    source: z
      .enum(['stored', 'environment', 'builtin'])
      .describe(
        '`stored`: by a client. `environment`: from the environment of the server. `builtin`: every workspace has it.',
      ),
    hint: z.string().describe('Last characters of the key, or its address, to tell credentials apart.'),
    createdAt: time,
    lastUsedAt: time.nullable().describe('Rounded down to the minute.'),
  })
  .meta({
    id: 'Credential',
    description: 'Authenticates the service at an external system. Its secret is never returned.',
  })
export type Credential = z.infer<typeof Credential>

export const CredentialCheck = z
  .object({ ok: z.boolean(), detail: z.string(), latencyMs: z.number().int().min(0) })
  .meta({ id: 'CredentialCheck', description: 'Result of checking a credential with its provider.' })
export type CredentialCheck = z.infer<typeof CredentialCheck>

export const CredentialProvider = z
  .object({
    kind: CredentialKind,
    provider: z.string(),
    fields: z.array(
      z.object({
        name: z.string(),
        required: z.boolean(),
        secret: z.boolean(),
        multiline: z.boolean().describe('The value is a text of several lines, such as a key file.'),
      }),
    ),
  })
  .meta({ id: 'CredentialProvider', description: 'An external system, and the fields that its credentials have.' })
export type CredentialProvider = z.infer<typeof CredentialProvider>

const secret = z
  .record(z.string(), z.string())
  .describe('Fields of the provider, by name; at most 64 KiB. Never shown again.')

export const credentialInUse = {
  code: 'credential_in_use',
  status: 409,
  title: 'Credential in use',
  meaning: 'The credential is still in use. Replace its secret with PATCH instead; the id stays the same.',
} as const satisfies ProblemKind

export const credentialReadOnly = {
  code: 'credential_read_only',
  status: 409,
  title: 'Credential not stored by this service',
  meaning: 'The credential is built in or comes from the environment of the server. Change it there.',
} as const satisfies ProblemKind

export const credentialStorageOff = {
  code: 'credential_storage_off',
  status: 409,
  title: 'Credential storage is off',
  meaning: 'Credentials come only from the environment of the server.',
} as const satisfies ProblemKind

export const tooManyCredentials = {
  code: 'too_many_credentials',
  status: 409,
  title: 'Too many credentials',
  meaning: 'The workspace has reached the maximum. Remove a credential first.',
} as const satisfies ProblemKind

export const masterKeyMissing = {
  code: 'master_key_missing',
  status: 503,
  title: 'Stored credentials cannot be opened',
  meaning:
    'The master key was rotated, and this process has only the old one. The operator must restart it with the current key; until then `/readyz` answers 503.',
  retryable: true,
} as const satisfies ProblemKind

export const createCredential = endpoint({
  id: 'createCredential',
  method: 'POST',
  path: '/api/orgs/{org}/credentials',
  summary: 'Store a credential',
  access: 'admin',
  body: z.strictObject({ kind: CredentialKind, provider: z.string().max(200), name: label, secret }),
  example: { kind: 'model', provider: 'anthropic', name: 'Team key', secret: { apiKey: 'sk-ant-0123456789abcdef' } },
  answers: { 201: Credential },
  problems: [masterKeyMissing, credentialStorageOff, tooManyCredentials],
  creates: true,
})

export const listCredentials = endpoint({
  id: 'listCredentials',
  method: 'GET',
  path: '/api/orgs/{org}/credentials',
  summary: 'List the credentials: stored ones, those of the server, and the built-in ones',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ credentials: z.array(Credential), nextCursor: z.string().nullable() }) },
})

export const updateCredential = endpoint({
  id: 'updateCredential',
  method: 'PATCH',
  path: '/api/orgs/{org}/credentials/{credentialId}',
  summary: 'Rename a credential, or replace all fields of its secret; takes effect immediately',
  access: 'admin',
  body: z.strictObject({ name: label.optional(), secret: secret.optional() }),
  example: { name: 'Team key 2', secret: { apiKey: 'sk-ant-fedcba9876543210' } },
  answers: { 200: Credential },
  problems: [masterKeyMissing, credentialReadOnly],
})

export const deleteCredential = endpoint({
  id: 'deleteCredential',
  method: 'DELETE',
  path: '/api/orgs/{org}/credentials/{credentialId}',
  summary: 'Delete a credential',
  access: 'admin',
  answers: { 204: null },
  problems: [credentialInUse, credentialReadOnly],
})

export const checkCredential = endpoint({
  id: 'checkCredential',
  method: 'POST',
  path: '/api/orgs/{org}/credentials/{credentialId}/check',
  summary: 'Check the credential with its provider',
  access: 'admin',
  answers: { 200: CredentialCheck },
  problems: [masterKeyMissing],
})

export const listCredentialProviders = endpoint({
  id: 'listCredentialProviders',
  method: 'GET',
  path: '/api/orgs/{org}/credential-providers',
  summary: 'List the providers whose credentials can be stored, and the fields of each',
  access: 'read',
  answers: { 200: z.object({ providers: z.array(CredentialProvider) }) },
})
