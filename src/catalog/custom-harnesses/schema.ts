import { z } from 'zod'
import { LEVELS, PROTOCOLS } from '../../harnesses/model-access.ts'
import { endpoint } from '../../platform/http/endpoint.ts'
import { pageQuery } from '../../platform/http/page.ts'
import type { ProblemKind } from '../../platform/problem.ts'

const TEMPLATE =
  'The placeholders `{model}`, `{baseUrl}`, `{token}`, `{protocol}`, `{level}`, `{home}`, `{instructionFile}`, `{bundle}` and `{node}` are replaced.'

const BUNDLE_BYTES_MAX = 256 * 1024 * 1024
const DIGEST = /^sha256:[0-9a-f]{64}$/

/** A path below HOME. `instruction.md` is reserved for the instruction. */
const filePath = z
  .string()
  .max(200)
  .regex(/^(?!instruction\.md$)(?!.*(?:^|\/)\.{1,2}(?:\/|$))[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/)

/** A program and its arguments. The arguments are not restricted. */
const commandLine = (wordsMax: number, lengthMax: number) =>
  z
    .array(z.string().max(lengthMax))
    .min(1)
    .max(wordsMax)
    .refine(([program = '']) => !program.split('/').includes('..'), {
      error: 'The path of the program must not contain `..`.',
      path: [0],
    })

/** A path into a line of JSON. */
const MemberPath = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+){0,7}$/)
  .describe('Member names separated by dots.')

const Condition = z
  .record(MemberPath, z.union([z.string().max(200), z.number(), z.boolean()]))
  .refine((condition) => Object.keys(condition).length <= 5, 'At most five paths')
  .default({})

const rule = {
  when: Condition.describe('Values that the line must have at these paths. All must match.'),
  each: MemberPath.optional().describe('Path of a list in the line. The rule is applied to each of its elements.'),
  where: Condition.describe('Values that each element must have at these paths; without `each`, the line.'),
}

const Rule = z
  .discriminatedUnion('tells', [
    z.strictObject({ ...rule, tells: z.enum(['message', 'thought']), text: MemberPath }),
    z.strictObject({
      ...rule,
      tells: z.literal('call'),
      id: MemberPath,
      name: MemberPath,
      arguments: MemberPath.optional(),
    }),
    z.strictObject({ ...rule, tells: z.literal('result'), id: MemberPath, text: MemberPath }),
    z.strictObject({ ...rule, tells: z.literal('turn') }),
  ])
  .meta({
    id: 'OutputRule',
    description:
      'How one kind of output line of a custom harness becomes part of its trajectory. `tells` is the kind of the trajectory event.',
  })

const fields = {
  id: z.string().regex(/^custom\/[a-z0-9][a-z0-9._-]{0,62}$/),
  name: z.string().trim().min(1).max(100),
  version: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,49}$/)
    .describe('Choose a new version for every change that can affect results.'),
  protocols: z.array(z.enum(PROTOCOLS)).min(1).max(PROTOCOLS.length),
  levels: z
    .partialRecord(z.enum(LEVELS), z.string().min(1).max(50))
    .describe('Reasoning levels that the program supports, each with the value of `{level}`.'),
  command: commandLine(100, 4000).describe(`A program of the bundle or the image, and its arguments. ${TEMPLATE}`),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/), z.string().max(4000)).default({}),
  files: z
    .array(z.strictObject({ path: filePath, text: z.string().max(100_000) }))
    .max(50)
    .default([])
    .describe('Files to create. Paths are relative to HOME.'),
  bundle: z
    .strictObject({
      digest: z.string().regex(DIGEST).describe('Digest of an uploaded archive.'),
      node: z.boolean().default(false).describe('Provides Node 22 at `{node}`.'),
      probe: commandLine(20, 1000).describe(
        'A command that exits with 0 if the program can run. It is executed in the image before the first model call.',
      ),
    })
    .optional()
    .describe('The uploaded program, mounted read-only at `{bundle}`.'),
  acp: z
    .literal(true)
    .optional()
    .describe('The command starts an agent of the Agent Client Protocol. It needs no `output`.'),
  output: z
    .array(Rule)
    .min(1)
    .max(50)
    .optional()
    .describe('Rules that turn JSON lines of the output into a trajectory. Without rules there is no trajectory.'),
}

export const NewHarness = z.strictObject(fields)
export type NewHarness = z.infer<typeof NewHarness>

export const CustomHarness = z
  .object({ ...fields, createdAt: z.iso.datetime() })
  .meta({ id: 'CustomHarness', description: 'A harness that the workspace described.' })
export type CustomHarness = z.infer<typeof CustomHarness>

export const harnessExists = {
  code: 'harness_exists',
  status: 409,
  title: 'Version exists with a different description',
  meaning: 'A version is immutable, because results refer to it. Choose a new version for the change.',
} as const satisfies ProblemKind

export const harnessNameSpent = {
  code: 'harness_name_spent',
  status: 409,
  title: 'Id of a removed harness',
  meaning: 'Results of the removed harness still refer to this id. Choose another id.',
} as const satisfies ProblemKind

export const harnessInUse = {
  code: 'harness_in_use',
  status: 409,
  title: 'Harness in use',
  meaning: 'An unfinished comparison uses the harness. Wait until it ends, or cancel it.',
} as const satisfies ProblemKind

export const bundleRefused = {
  code: 'bundle_refused',
  status: 422,
  title: 'Bundle archive refused',
  meaning: 'The archive is damaged, too large, or has unsafe paths, links or file types. `detail` names the entry.',
} as const satisfies ProblemKind

export const bundlesFull = {
  code: 'bundles_full',
  status: 409,
  title: 'Bundle quota exceeded',
  meaning: 'Remove harnesses that you no longer need. A bundle that no harness uses is deleted after a day.',
} as const satisfies ProblemKind

export const bundleMissing = {
  code: 'bundle_missing',
  status: 422,
  title: 'Bundle not found',
  meaning: 'Upload the archive first. A bundle that no harness uses is deleted after a day.',
} as const satisfies ProblemKind

export const SentBundle = z
  .object({
    digest: z
      .string()
      .regex(DIGEST)
      .describe('Digest of the uploaded archive. Use it as `bundle.digest` of a harness.'),
    bytes: z.number().int(),
    files: z.number().int().describe('Number of files and folders.'),
    unpackedBytes: z.number().int(),
  })
  .meta({ id: 'SentBundle', description: 'An uploaded program of a custom harness.' })
export type SentBundle = z.infer<typeof SentBundle>

export const sendBundle = endpoint({
  id: 'sendBundle',
  method: 'POST',
  path: '/api/orgs/{org}/harnesses/bundles',
  summary: 'Upload the program of a harness as a gzipped tar archive. It is executed only in trials',
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
  summary: 'Add a custom harness, or a new version of one',
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
  summary: 'List all versions of the custom harnesses of this workspace',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ harnesses: z.array(CustomHarness), nextCursor: z.string().nullable() }) },
})

export const removeHarness = endpoint({
  id: 'removeHarness',
  method: 'DELETE',
  path: '/api/orgs/{org}/harnesses/custom/{slug}',
  summary: 'Remove a harness with all its versions. Its id cannot be reused',
  access: 'admin',
  answers: { 204: null },
  problems: [harnessInUse],
})
