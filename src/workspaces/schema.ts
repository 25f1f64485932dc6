import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import { type ProblemKind, unauthenticated } from '../platform/problem.ts'

const time = z.iso.datetime()
const login = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'must start with a letter or digit and hold only letters, digits, . _ -')
const label = z.string().trim().min(1).max(200)

export const Permission = z
  .enum(['read', 'write', 'admin'])
  .meta({ id: 'Permission', description: 'Rights of a key. Each includes the ones before it.' })
export type Permission = z.infer<typeof Permission>

export const Workspace = z
  .object({
    login,
    name: z.string(),
    kind: z.enum(['org', 'user']),
    credentialStorage: z
      .boolean()
      .describe('True if secrets can be stored. Otherwise they come from the environment of the server.'),
    createdAt: time,
  })
  .meta({ id: 'Workspace', description: 'A workspace, which owns everything of one team.' })
export type Workspace = z.infer<typeof Workspace>

export const Key = z
  .object({
    id: z.uuid(),
    name: z.string(),
    permission: Permission,
    last4: z.string(),
    createdAt: time,
    expiresAt: time.nullable(),
    lastUsedAt: time.nullable().describe('Rounded down to the minute.'),
  })
  .meta({ id: 'Key', description: 'An API key without its secret part.' })
export type Key = z.infer<typeof Key>

const secretKey = z.string().describe('Shown only once.')

export const Session = z
  .object({
    org: login,
    permission: Permission,
    csrfToken: z.string().nullable().describe('Sent as X-CSRF-Token with every change. Null for a bearer key.'),
    expiresAt: time.nullable(),
  })
  .meta({ id: 'Session', description: 'A browser that has signed in with a key.' })
export type Session = z.infer<typeof Session>

export const AuditEvent = z
  .object({
    id: z.string(),
    at: time,
    actor: z.string().describe('`key:<id>`, `operator` or `system`.'),
    action: z.string(),
    subject: z.string(),
    detail: z.record(z.string(), z.string()),
    requestId: z.string().nullable(),
  })
  .meta({ id: 'AuditEvent', description: 'A change: who made it, when, and to what. Events form a hash chain.' })
export type AuditEvent = z.infer<typeof AuditEvent>

export const HealthCheck = z
  .object({ name: z.string(), ok: z.boolean(), detail: z.string(), fix: z.string().nullable() })
  .meta({ id: 'HealthCheck', description: 'One check of the installation, with a fix if it failed.' })
export type HealthCheck = z.infer<typeof HealthCheck>

export const WorkerProcess = z
  .object({
    host: z.string(),
    processId: z.number().int(),
    startedAt: z.iso.datetime(),
    seenAt: z.iso.datetime().describe('Time of its last heartbeat.'),
    jobs: z.number().int().describe('Number of jobs that it runs.'),
  })
  .meta({ id: 'WorkerProcess', description: 'A process that runs jobs.' })
export type WorkerProcess = z.infer<typeof WorkerProcess>

export const DiskSpace = z
  .object({ freeBytes: z.number(), totalBytes: z.number() })
  .meta({ id: 'DiskSpace', description: 'Space on a disk, rounded down to whole gigabytes.' })
export type DiskSpace = z.infer<typeof DiskSpace>

export const loginTaken = {
  code: 'login_taken',
  status: 409,
  title: 'Login already used',
  meaning: 'Another workspace has this login. Logins are compared without case.',
} as const satisfies ProblemKind

export const lastAdminKey = {
  code: 'last_admin_key',
  status: 409,
  title: 'Last admin key',
  meaning: 'A workspace keeps at least one admin key that does not expire. Create another one first.',
} as const satisfies ProblemKind

export const tooManyKeys = {
  code: 'too_many_keys',
  status: 409,
  title: 'Too many keys',
  meaning: 'The workspace has reached the maximum. Revoke a key first.',
} as const satisfies ProblemKind

export const createWorkspace = endpoint({
  id: 'createWorkspace',
  method: 'POST',
  path: '/api/orgs',
  summary: 'Create a workspace and its first admin key',
  access: 'operator',
  body: z.strictObject({ login, name: label, kind: z.enum(['org', 'user']).default('org') }),
  example: { login: 'acme', name: 'Acme Inc.', kind: 'org' },
  answers: { 201: z.object({ ...Workspace.shape, key: secretKey }) },
  problems: [loginTaken],
  creates: true,
  showsSecret: true,
})

export const readWorkspace = endpoint({
  id: 'readWorkspace',
  method: 'GET',
  path: '/api/orgs/{org}',
  summary: 'Read the workspace',
  access: 'read',
  answers: { 200: Workspace },
})

export const readOwnKey = endpoint({
  id: 'readOwnKey',
  method: 'GET',
  path: '/api/key',
  summary: 'Read the permissions of the current key',
  access: 'key',
  answers: { 200: z.object({ org: login, permission: Permission, expiresAt: time.nullable() }) },
})

export const createSession = endpoint({
  id: 'createSession',
  method: 'POST',
  path: '/api/session',
  summary: 'Sign a browser in with a key',
  access: 'public',
  body: z.strictObject({ key: z.string().max(200) }),
  example: { key: 'assay_…' },
  answers: { 201: Session },
  problems: [unauthenticated],
  showsSecret: true,
  signIn: 'key',
})

export const readSession = endpoint({
  id: 'readSession',
  method: 'GET',
  path: '/api/session',
  summary: 'Read the current session',
  access: 'key',
  answers: { 200: Session },
})

export const deleteSession = endpoint({
  id: 'deleteSession',
  method: 'DELETE',
  path: '/api/session',
  summary: 'Sign out',
  access: 'key',
  answers: { 204: null },
})

export const createKey = endpoint({
  id: 'createKey',
  method: 'POST',
  path: '/api/orgs/{org}/keys',
  summary: 'Create an API key',
  access: 'admin',
  body: z.strictObject({
    name: label,
    permission: Permission,
    expiresAt: z.iso
      .datetime()
      .refine((at) => Date.parse(at) > Date.now(), 'must be in the future')
      .nullable()
      .default(null),
  }),
  example: { name: 'continuous integration', permission: 'write' },
  answers: { 201: z.object({ ...Key.shape, key: secretKey }) },
  problems: [tooManyKeys],
  creates: true,
  showsSecret: true,
})

export const listKeys = endpoint({
  id: 'listKeys',
  method: 'GET',
  path: '/api/orgs/{org}/keys',
  summary: 'List the API keys',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ keys: z.array(Key), nextCursor: z.string().nullable() }) },
})

export const deleteKey = endpoint({
  id: 'deleteKey',
  method: 'DELETE',
  path: '/api/orgs/{org}/keys/{keyId}',
  summary: 'Revoke an API key',
  access: 'admin',
  answers: { 204: null },
  problems: [lastAdminKey],
})

export const listAudit = endpoint({
  id: 'listAudit',
  method: 'GET',
  path: '/api/orgs/{org}/audit',
  summary: 'List the audit events',
  access: 'read',
  query: pageQuery(z.string().regex(/^\d{1,15}$/)),
  answers: { 200: z.object({ events: z.array(AuditEvent), nextCursor: z.string().nullable() }) },
})

export const readDoctor = endpoint({
  id: 'readDoctor',
  method: 'GET',
  path: '/api/orgs/{org}/doctor',
  summary: 'Check the health of what this workspace depends on',
  access: 'read',
  answers: { 200: z.object({ ok: z.boolean(), checks: z.array(HealthCheck) }) },
})

export const readOperations = endpoint({
  id: 'readOperations',
  method: 'GET',
  path: '/api/operations',
  summary: 'List the worker processes and the disk of the data folder',
  access: 'operator',
  answers: {
    200: z
      .object({ workers: z.array(WorkerProcess), disk: DiskSpace })
      .meta({ id: 'OperationsReport', description: 'Worker processes, and the disk of the process that answers.' }),
  },
})
