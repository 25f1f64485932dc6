import { z } from 'zod'
import { endpoint, uniqueList } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'
import { codeHostAccessRefused, codeHostUnavailable, repositoryNotFound } from '../repos/schema.ts'
import { Preview, PublishAnswer, PublishedRelease } from './shapes/schema.ts'

export const stalePreview = {
  code: 'stale_preview',
  status: 409,
  title: 'Results have changed since the preview',
  meaning: 'Review the fresh `preview` in this response, then publish with its `head` and `fingerprint`.',
} as const satisfies ProblemKind

export const repositoryPrivate = {
  code: 'repository_private',
  status: 422,
  title: 'Repository is not public',
  meaning:
    'Only results of public repositories can be published. GitHub reports the visibility; connect plain git repositories again with `visibility` `public` (`assay repos connect … --public`).',
} as const satisfies ProblemKind

export const ownerNotAssigned = {
  code: 'owner_not_assigned',
  status: 422,
  title: 'Owner not assigned to this workspace',
  meaning:
    'Results of plain git repositories and of code hosts other than github.com are published only under owners that the operator assigned to the workspace (ASSAY_PUBLIC_OWNERS). Under an assigned owner, only its workspace publishes.',
} as const satisfies ProblemKind

export const nameTaken = {
  code: 'name_taken',
  status: 409,
  title: 'Another repository is public under this name',
  meaning:
    'A public name shows one repository. Withdraw the public release of the other repository first, or connect this one under another name.',
} as const satisfies ProblemKind

export const settingsRefused = {
  code: 'settings_refused',
  status: 422,
  title: 'Settings cannot be published',
  meaning:
    'Choose at least one setting, and only settings that are publishable in the preview. `errors` lists the others.',
} as const satisfies ProblemKind

export const secretsFound = {
  code: 'secrets_found',
  status: 422,
  title: 'Suspected secrets in task files',
  meaning: '`findings` lists them. Nothing was published. Remove the secrets, or publish without task files.',
} as const satisfies ProblemKind

export const notTheOwner = {
  code: 'not_the_owner',
  status: 403,
  title: 'Only the repository owner can endorse',
  meaning: "The workspace must have the login of the repository's owner, and the operator must have verified it.",
} as const satisfies ProblemKind

export const releaseWithdrawn = {
  code: 'release_withdrawn',
  status: 409,
  title: 'Release already withdrawn',
  meaning: 'A release can be withdrawn only once.',
} as const satisfies ProblemKind

const REPOSITORY = '/api/orgs/{org}/repos/{owner}/{name}'
const PATH = `${REPOSITORY}/releases` as const

const PreviewQuery = z.object({
  setting: z
    .union([z.string().max(400), z.array(z.string().max(400)).max(500)])
    .optional()
    .transform((given) => (given === undefined ? undefined : [given].flat()))
    .describe('Only these settings. Repeatable. Default: all publishable settings.'),
})

export const previewRelease = endpoint({
  id: 'previewRelease',
  method: 'GET',
  path: `${PATH}/preview`,
  summary: 'Preview a release: its content, and the setting keys, head and fingerprint needed to publish it',
  access: 'read',
  query: PreviewQuery,
  answers: { 200: Preview },
})

export const previewReleasePage = endpoint({
  id: 'previewReleasePage',
  method: 'GET',
  path: `${PATH}/preview/page`,
  summary: 'Preview the public page of the repository as it would be after publishing, dated today',
  access: 'read',
  media: 'text/html; charset=utf-8',
  query: PreviewQuery,
  answers: { 200: null },
})

export const publishRelease = endpoint({
  id: 'publishRelease',
  method: 'POST',
  path: PATH,
  summary: 'Publish results: 201 for a new release, 200 if the content equals the head',
  access: 'write',
  body: z.strictObject({
    settings: uniqueList(z.array(z.string().max(400)).max(500)).describe(
      'Setting keys from the preview, without duplicates.',
    ),
    head: z.string().max(100).nullable().describe('Head from the preview; null for the first release.'),
    fingerprint: z
      .string()
      .max(200)
      .describe('Fingerprint from the preview. Guards against publishing results that were not previewed.'),
    publishTasks: z
      .boolean()
      .default(false)
      .describe(
        'Also publishes the current files of the tasks. Published files may have been copied and cannot be recalled.',
      ),
  }),
  example: { settings: ['acme/model|mini|high'], head: null, fingerprint: '0'.repeat(64) },
  answers: { 201: PublishAnswer, 200: PublishAnswer },
  problems: [
    repositoryPrivate,
    ownerNotAssigned,
    nameTaken,
    stalePreview,
    settingsRefused,
    secretsFound,
    repositoryNotFound,
    codeHostAccessRefused,
    codeHostUnavailable,
  ],
})

export const listReleases = endpoint({
  id: 'listReleases',
  method: 'GET',
  path: PATH,
  summary: 'List the releases, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ releases: z.array(PublishedRelease), nextCursor: z.string().nullable() }) },
})

export const readRelease = endpoint({
  id: 'readRelease',
  method: 'GET',
  path: `${PATH}/{releaseId}`,
  summary: 'Read a release',
  access: 'read',
  answers: { 200: PublishedRelease },
})

export const withdrawRelease = endpoint({
  id: 'withdrawRelease',
  method: 'POST',
  path: `${PATH}/{releaseId}/withdraw`,
  summary: 'Withdraw a release: it is no longer public, and the history shows the reason',
  access: 'admin',
  body: z.strictObject({ reason: z.string().trim().min(1).max(1000).describe('Publicly visible.') }),
  example: { reason: 'Two tasks were broken.' },
  answers: { 200: PublishedRelease },
  problems: [releaseWithdrawn],
})

const Endorsement = z
  .object({ repository: z.string(), publisher: z.string(), at: z.iso.datetime() })
  .meta({ id: 'Endorsement', description: 'The owner of a repository vouches for the results of another publisher.' })
export type Endorsement = z.infer<typeof Endorsement>

const ENDORSEMENT = `${REPOSITORY}/endorsements/{publisher}` as const

export const putEndorsement = endpoint({
  id: 'putEndorsement',
  method: 'PUT',
  path: ENDORSEMENT,
  summary: "Endorse another workspace's results for your repository",
  access: 'admin',
  answers: { 200: Endorsement },
  problems: [notTheOwner],
})

export const readEndorsement = endpoint({
  id: 'readEndorsement',
  method: 'GET',
  path: ENDORSEMENT,
  summary: 'Read an endorsement',
  access: 'read',
  answers: { 200: Endorsement },
})

export const deleteEndorsement = endpoint({
  id: 'deleteEndorsement',
  method: 'DELETE',
  path: ENDORSEMENT,
  summary: 'Remove an endorsement',
  access: 'admin',
  answers: { 204: null },
})

export const verifyWorkspace = endpoint({
  id: 'verifyWorkspace',
  method: 'PUT',
  path: '/api/verified-orgs/{login}',
  summary:
    'Verify that a workspace belongs to the owner of its login: its releases are endorsed, and it can endorse others',
  access: 'operator',
  answers: { 200: z.object({ login: z.string(), verifiedAt: z.iso.datetime() }) },
})

export const unverifyWorkspace = endpoint({
  id: 'unverifyWorkspace',
  method: 'DELETE',
  path: '/api/verified-orgs/{login}',
  summary: 'Remove the verification of a workspace',
  access: 'operator',
  answers: { 204: null },
})
