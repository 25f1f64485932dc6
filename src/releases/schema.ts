import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import { uniqueList } from '../platform/http/unique.ts'
import type { ProblemKind } from '../platform/problem.ts'
import { codeHostAccessRefused, codeHostUnavailable, repositoryNotFound } from '../repos/schema.ts'
import { Preview, PublishAnswer, PublishedRelease } from './shapes/schema.ts'

export const stalePreview = {
  code: 'stale_preview',
  status: 409,
  title: 'The results have changed since the preview',
  meaning: 'Look at `preview`, which is fresh, and publish with its `head` and `fingerprint`.',
} as const satisfies ProblemKind

export const repositoryPrivate = {
  code: 'repository_private',
  status: 422,
  title: 'The repository is not public',
  meaning:
    'Only results of public repositories can be published. Of GitHub the code host says which those are; plain git is connected again with `visibility` `public` (`assay repos connect … --public`).',
} as const satisfies ProblemKind

export const ownerNotAssigned = {
  code: 'owner_not_assigned',
  status: 422,
  title: 'This workspace may not publish under that owner',
  meaning:
    'Repositories of plain git, and of code hosts other than github.com, are published only under owners that the operator assigns (ASSAY_PUBLIC_OWNERS).',
} as const satisfies ProblemKind

export const settingsRefused = {
  code: 'settings_refused',
  status: 422,
  title: 'These settings cannot be published',
  meaning: 'Choose at least one, and only those that the preview calls publishable. `errors` names each that is not.',
} as const satisfies ProblemKind

export const secretsFound = {
  code: 'secrets_found',
  status: 422,
  title: 'The files of the tasks hold what looks like secrets',
  meaning: '`findings` says where. Nothing was published. Take them out, or publish without the files.',
} as const satisfies ProblemKind

export const notTheOwner = {
  code: 'not_the_owner',
  status: 403,
  title: 'Only the owner of a repository endorses',
  meaning: "The workspace must have the login of the repository's owner, and the operator must have verified it.",
} as const satisfies ProblemKind

export const releaseWithdrawn = {
  code: 'release_withdrawn',
  status: 409,
  title: 'The release was withdrawn before',
  meaning: 'A release is withdrawn once, for one reason.',
} as const satisfies ProblemKind

const REPOSITORY = '/api/orgs/{org}/repos/{owner}/{name}'
const PATH = `${REPOSITORY}/releases` as const

export const previewRelease = endpoint({
  id: 'previewRelease',
  method: 'GET',
  path: `${PATH}/preview`,
  summary: 'See what a release would show: setting keys, head and fingerprint to publish with',
  access: 'read',
  query: z.object({
    setting: z
      .union([z.string().max(400), z.array(z.string().max(400)).max(500)])
      .optional()
      .transform((given) => (given === undefined ? undefined : [given].flat()))
      .describe('Repeatable: only these. Without it all that can be published.'),
  }),
  answers: { 200: Preview },
})

export const publishRelease = endpoint({
  id: 'publishRelease',
  method: 'POST',
  path: PATH,
  summary: 'Publish results: 201 when they are new, 200 when they are those of the head',
  access: 'write',
  body: z.strictObject({
    settings: uniqueList(z.array(z.string().max(400)).max(500)).describe('Setting keys of the preview, each once.'),
    head: z.string().max(100).nullable().describe('Of the preview; null for a first release.'),
    fingerprint: z.string().max(200).describe('Of the preview: nothing is published that was not seen.'),
    publishTasks: z
      .boolean()
      .default(false)
      .describe(
        'Also makes the files of the tasks public, as they are now. What was public once cannot be taken back from its readers.',
      ),
  }),
  example: { settings: ['acme/model|mini|high'], head: null, fingerprint: '0'.repeat(64) },
  answers: { 201: PublishAnswer, 200: PublishAnswer },
  problems: [
    repositoryPrivate,
    ownerNotAssigned,
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
  summary: 'Withdraw a release: it is not shown any more, and the history says why',
  access: 'admin',
  body: z.strictObject({ reason: z.string().trim().min(1).max(1000).describe('Everybody can read it.') }),
  example: { reason: 'Two tasks were broken.' },
  answers: { 200: PublishedRelease },
  problems: [releaseWithdrawn],
})

const Endorsement = z
  .object({ repository: z.string(), publisher: z.string(), at: z.iso.datetime() })
  .meta({ id: 'Endorsement' })
export type Endorsement = z.infer<typeof Endorsement>

const ENDORSEMENT = `${REPOSITORY}/endorsements/{publisher}` as const

export const putEndorsement = endpoint({
  id: 'putEndorsement',
  method: 'PUT',
  path: ENDORSEMENT,
  summary: 'Stand for what another workspace publishes of your repository',
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
  summary: 'Take an endorsement back',
  access: 'admin',
  answers: { 204: null },
})

export const verifyWorkspace = endpoint({
  id: 'verifyWorkspace',
  method: 'PUT',
  path: '/api/verified-orgs/{login}',
  summary: 'Say that a workspace belongs to whom its login names: its releases are endorsed, and it may endorse others',
  access: 'operator',
  answers: { 200: z.object({ login: z.string(), verifiedAt: z.iso.datetime() }) },
})

export const unverifyWorkspace = endpoint({
  id: 'unverifyWorkspace',
  method: 'DELETE',
  path: '/api/verified-orgs/{login}',
  summary: 'Take that back',
  access: 'operator',
  answers: { 204: null },
})
