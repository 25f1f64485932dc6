import { z } from 'zod'
import { LEVELS, PROTOCOLS } from '../../harnesses/model-access.ts'
import { endpoint } from '../../platform/http/endpoint.ts'
import { pageQuery } from '../../platform/http/page.ts'
import type { ProblemKind } from '../../platform/problem.ts'

const TEMPLATE =
  '`{model}`, `{baseUrl}`, `{token}`, `{protocol}`, `{level}`, `{home}`, `{instructionFile}`, `{bundle}` and `{node}` are filled in.'

const BUNDLE_BYTES_MAX = 256 * 1024 * 1024
const DIGEST = /^sha256:[0-9a-f]{64}$/

const path = z
  .string()
  .max(200)
  .regex(/^(?!instruction\.md$)(?!.*(?:^|\/)\.{1,2}(?:\/|$))[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/)

/** A program and its arguments. Arguments may say what they like. */
const commandOf = (wordsMax: number, lengthMax: number) =>
  z
    .array(z.string().max(lengthMax))
    .min(1)
    .max(wordsMax)
    .refine(([program = '']) => !program.split('/').includes('..'), {
      error: 'The path of a program has no `..`.',
      path: [0],
    })

const Path = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+){0,7}$/)
  .describe('Names of members, with dots between them.')

const Condition = z
  .record(Path, z.union([z.string().max(200), z.number(), z.boolean()]))
  .refine((condition) => Object.keys(condition).length <= 5, 'at most five')
  .default({})

const rule = {
  when: Condition.describe('What stands at some paths of a line. All must be so.'),
  each: Path.optional().describe('A list in the line. The rule speaks of its members then, one by one.'),
  where: Condition.describe('The same of what the rule speaks of.'),
}

const Rule = z
  .discriminatedUnion('tells', [
    z.strictObject({ ...rule, tells: z.enum(['message', 'thought']), text: Path }),
    z.strictObject({ ...rule, tells: z.literal('call'), id: Path, name: Path, arguments: Path.optional() }),
    z.strictObject({ ...rule, tells: z.literal('result'), id: Path, text: Path }),
    z.strictObject({ ...rule, tells: z.literal('turn') }),
  ])
  .meta({ id: 'OutputRule' })

const fields = {
  id: z.string().regex(/^custom\/[a-z0-9][a-z0-9._-]{0,62}$/),
  name: z.string().trim().min(1).max(100),
  version: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,49}$/)
    .describe('A change that can change results is a new one.'),
  protocols: z.array(z.enum(PROTOCOLS)).min(1).max(PROTOCOLS.length),
  levels: z
    .partialRecord(z.enum(LEVELS), z.string().min(1).max(50))
    .describe('The levels that it can ask a model for, and what stands for `{level}` then.'),
  command: commandOf(100, 4000).describe(`A program of the bundle or the image, and its arguments. ${TEMPLATE}`),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/), z.string().max(4000)).default({}),
  files: z
    .array(z.strictObject({ path, text: z.string().max(100_000) }))
    .max(50)
    .default([])
    .describe('Below its HOME.'),
  bundle: z
    .strictObject({
      digest: z.string().regex(DIGEST).describe('Of an archive that was sent before.'),
      node: z.boolean().default(false).describe('Whether it needs Node 22, which is at `{node}` then.'),
      probe: commandOf(20, 1000).describe(
        'A command that ends with 0 where the program runs. It is tried in an image before anything is spent.',
      ),
    })
    .optional()
    .describe('Its program. It is at `{bundle}`, for reading only.'),
  output: z
    .array(Rule)
    .min(1)
    .max(50)
    .optional()
    .describe('How the lines of its output that are JSON objects become a trajectory. Without it there is none.'),
}

export const NewHarness = z.strictObject(fields)
export type NewHarness = z.infer<typeof NewHarness>

export const CustomHarness = z.object({ ...fields, createdAt: z.iso.datetime() }).meta({ id: 'CustomHarness' })
export type CustomHarness = z.infer<typeof CustomHarness>

export const harnessExists = {
  code: 'harness_exists',
  status: 409,
  title: 'Version exists with another description',
  meaning: 'What was compared with a version stays true. Give the change a new version.',
} as const satisfies ProblemKind

export const harnessNameSpent = {
  code: 'harness_name_spent',
  status: 409,
  title: 'This name was used before',
  meaning: 'Results of a harness that was removed still carry its name. Choose another one.',
} as const satisfies ProblemKind

export const harnessInUse = {
  code: 'harness_in_use',
  status: 409,
  title: 'This harness is in use',
  meaning: 'A comparison that is not over yet works with it. Wait for its end, or cancel it.',
} as const satisfies ProblemKind

export const bundleRefused = {
  code: 'bundle_refused',
  status: 422,
  title: 'This archive is not unpacked',
  meaning: 'It is damaged, too large, or has paths, links or files that no program needs. `detail` names the entry.',
} as const satisfies ProblemKind

export const bundlesFull = {
  code: 'bundles_full',
  status: 409,
  title: 'There is no room for more bundles',
  meaning: 'Remove harnesses that are not needed any more. A bundle that no harness names goes after a day.',
} as const satisfies ProblemKind

export const bundleMissing = {
  code: 'bundle_missing',
  status: 422,
  title: 'There is no such bundle',
  meaning: 'Send the archive first. One that no harness names goes after a day.',
} as const satisfies ProblemKind

export const SentBundle = z
  .object({
    digest: z.string().regex(DIGEST).describe('Of the archive as it was sent. Descriptions of harnesses name it.'),
    bytes: z.number().int(),
    files: z.number().int().describe('Folders among them.'),
    unpackedBytes: z.number().int(),
  })
  .meta({ id: 'SentBundle' })
export type SentBundle = z.infer<typeof SentBundle>

export const sendBundle = endpoint({
  id: 'sendBundle',
  method: 'POST',
  path: '/api/orgs/{org}/harnesses/bundles',
  summary: 'Send the program of a harness: a gzipped tar archive. Nothing in it is run until a trial does',
  access: 'admin',
  upload: { mediaType: 'application/gzip', bytesMax: BUNDLE_BYTES_MAX },
  answers: { 200: SentBundle, 201: SentBundle },
  problems: [bundleRefused, bundlesFull],
  creates: true,
})

export const addHarness = endpoint({
  id: 'addHarness',
  method: 'POST',
  path: '/api/orgs/{org}/harnesses',
  summary: 'Describe a harness of your own, or a new version of one',
  access: 'admin',
  body: NewHarness,
  example: {
    id: 'custom/house-agent',
    name: 'House agent',
    version: '1.4.0',
    protocols: ['openai-chat'],
    levels: { low: 'low', high: 'high' },
    command: ['/opt/agent/run', '--model', '{model}', '--effort', '{level}', '--task', '{instructionFile}'],
    env: { OPENAI_BASE_URL: '{baseUrl}/v1', OPENAI_API_KEY: '{token}' },
    files: [],
  },
  answers: { 200: CustomHarness, 201: CustomHarness },
  problems: [harnessExists, harnessNameSpent, bundleMissing],
  creates: true,
})

export const listHarnesses = endpoint({
  id: 'listHarnesses',
  method: 'GET',
  path: '/api/orgs/{org}/harnesses',
  summary: 'List the harnesses that this workspace has described, each version',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ harnesses: z.array(CustomHarness), nextCursor: z.string().nullable() }) },
})

export const removeHarness = endpoint({
  id: 'removeHarness',
  method: 'DELETE',
  path: '/api/orgs/{org}/harnesses/custom/{slug}',
  summary: 'Remove a harness with all its versions; its name is not given again',
  access: 'admin',
  answers: { 204: null },
  problems: [harnessInUse],
})
