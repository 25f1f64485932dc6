import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import { forbidden, type ProblemKind } from '../platform/problem.ts'

const Source = z
  .discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('github') }),
    z.strictObject({ kind: z.literal('git'), url: z.string().min(1).max(2000) }),
  ])
  .meta({ id: 'RepositorySource', description: 'Where a repository is: at GitHub, or at a git URL.' })

const Visibility = z.enum(['public', 'private'])

export const Repository = z
  .object({
    id: z.number().int().describe('Id at the code host; at least 2^40 for plain git.'),
    owner: z.string(),
    name: z.string(),
    fullName: z.string(),
    source: Source,
    credentialId: z.uuid().nullable(),
    visibility: Visibility,
    connectedAt: z.iso.datetime(),
  })
  .meta({ id: 'Repository', description: 'A repository that is connected to the workspace.' })
export type Repository = z.infer<typeof Repository>

export const ConnectRepositoryInput = z.strictObject({
  source: Source,
  credentialId: z.uuid().optional().describe('A code-host credential. Defaults to the newest of the workspace.'),
  visibility: Visibility.optional().describe(
    'Only for plain git; a code host reports it. Defaults to private, which withdraws a public release (admin).',
  ),
})
export type ConnectRepositoryInput = z.infer<typeof ConnectRepositoryInput>

export const repositoryNotFound = {
  code: 'repository_not_found',
  status: 404,
  title: 'Repository not found at the code host',
  meaning: 'The repository does not exist, or the credential has no access to it.',
} as const satisfies ProblemKind

export const codeHostAccessRefused = {
  code: 'code_host_access_refused',
  status: 422,
  title: 'Credential rejected by the code host',
  meaning: 'The code-host credential of this workspace is no longer valid. Replace its secret.',
} as const satisfies ProblemKind

export const codeHostUnavailable = {
  code: 'code_host_unavailable',
  status: 503,
  title: 'The code host cannot be reached',
  meaning: 'The code host is down, slow, or limits requests. Try again later.',
  retryable: true,
} as const satisfies ProblemKind

export const repositoryBusy = {
  code: 'repository_busy',
  status: 409,
  title: 'The repository is in use',
  meaning: 'Wait until its batches and comparisons have ended, or cancel them.',
} as const satisfies ProblemKind

export const releasesPublic = {
  code: 'releases_public',
  status: 409,
  title: 'The repository has a public release',
  meaning:
    'Choose what happens to the release in `releaseId`: `?withdraw=true` withdraws it (needs an admin key), `?withdraw=false` keeps it public. It can be withdrawn later too.',
} as const satisfies ProblemKind

const PATH = '/api/orgs/{org}/repos/{owner}/{name}'

export const listRepositories = endpoint({
  id: 'listRepositories',
  method: 'GET',
  path: '/api/orgs/{org}/repos',
  summary: 'List connected repositories, newest first',
  access: 'read',
  query: pageQuery(z.string().regex(/^\d{1,16}$/)),
  answers: { 200: z.object({ repos: z.array(Repository), nextCursor: z.string().nullable() }) },
})

export const connectRepository = endpoint({
  id: 'connectRepository',
  method: 'PUT',
  path: PATH,
  summary: 'Connect a repository or change its connection',
  access: 'write',
  body: ConnectRepositoryInput,
  example: { source: { kind: 'git', url: 'https://git.example.org/lab/demo.git' } },
  answers: { 201: Repository, 200: Repository },
  problems: [forbidden, repositoryNotFound, codeHostAccessRefused, repositoryBusy, releasesPublic, codeHostUnavailable],
})

export const readRepository = endpoint({
  id: 'readRepository',
  method: 'GET',
  path: PATH,
  summary: 'Read a repository',
  access: 'read',
  answers: { 200: Repository },
})

export const removeRepository = endpoint({
  id: 'removeRepository',
  method: 'DELETE',
  path: PATH,
  summary: 'Disconnect a repository; reconnecting it restores its batches',
  access: 'write',
  query: z.object({
    withdraw: z
      .enum(['true', 'false'])
      .optional()
      .describe('Required when a release is public. `true` withdraws it (admin), `false` keeps it public.'),
  }),
  answers: { 204: null },
  problems: [forbidden, repositoryBusy, releasesPublic],
})
