import { z } from 'zod'
import { LEVELS, PROTOCOLS } from '../../harnesses/model-access.ts'
import { endpoint } from '../../platform/http/endpoint.ts'
import { pageQuery } from '../../platform/http/page.ts'
import type { ProblemKind } from '../../platform/problem.ts'

const TEMPLATE =
  '`{model}`, `{baseUrl}`, `{token}`, `{protocol}`, `{level}`, `{home}` and `{instructionFile}` are filled in.'

const path = z
  .string()
  .max(200)
  .regex(/^(?!instruction\.md$)(?!.*(?:^|\/)\.{1,2}(?:\/|$))[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/)

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
  command: z
    .array(z.string().max(4000))
    .min(1)
    .max(100)
    .describe(`A program of the image and its arguments. ${TEMPLATE}`),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/), z.string().max(4000)).default({}),
  files: z
    .array(z.strictObject({ path, text: z.string().max(100_000) }))
    .max(50)
    .default([])
    .describe('Below its HOME.'),
}

export const NewHarness = z.strictObject(fields)
export type NewHarness = z.infer<typeof NewHarness>

export const CustomHarness = z.object({ ...fields, createdAt: z.iso.datetime() }).meta({ id: 'CustomHarness' })
export type CustomHarness = z.infer<typeof CustomHarness>

export const harnessExists = {
  code: 'harness_exists',
  status: 409,
  title: 'This version is there, and is another',
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
  problems: [harnessExists, harnessNameSpent],
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
