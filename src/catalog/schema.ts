import { z } from 'zod'
import { Cloud } from '../credentials/schema.ts'
import { LEVELS, PROTOCOLS } from '../harnesses/model-access.ts'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'

const named = z.object({ id: z.uuid(), name: z.string() })

const rates = {
  input: z.number(),
  output: z.number(),
  cacheRead: z.number().optional(),
  cacheWrite: z.number().optional().describe('Cache writes with a lifetime of five minutes.'),
  cacheWrite1h: z.number().optional(),
}

export const CatalogModel = z
  .object({
    catalogId: z.string(),
    name: z.string(),
    label: z.string(),
    provider: z.string(),
    custom: z.boolean(),
    reasoningLevels: z.array(z.string()).min(1),
    defaultReasoningLevel: z.string(),
    harnesses: z.array(z.string()).describe('Harnesses that support this model with at least one of its levels.'),
    harnessLevels: z
      .record(z.string(), z.array(z.string()))
      .describe('Levels of this model that each harness supports. Other combinations are refused.'),
    contextTokens: z.number().int(),
    knowledgeCutoff: z.string().nullable().describe('Month of the newest training data, if known.'),
    prices: z
      .object({ ...rates, tiers: z.array(z.object({ aboveInputTokens: z.number().int(), ...rates })).optional() })
      .describe(
        'Current prices in USD per million tokens. A tier applies to all tokens of calls with more input than its threshold.',
      ),
    credentials: z.array(named).describe('Credentials of this workspace that give access to it.'),
  })
  .meta({ id: 'CatalogModel', description: 'A model that can be chosen.' })
export type CatalogModel = z.infer<typeof CatalogModel>

export const CatalogHarness = z
  .object({
    id: z.string(),
    name: z.string(),
    version: z.string(),
    protocols: z.array(z.string()).describe('Protocols that it supports. Empty if it needs no model.'),
  })
  .meta({ id: 'CatalogHarness', description: 'A harness that can be chosen.' })
export type CatalogHarness = z.infer<typeof CatalogHarness>

const CatalogSandbox = z
  .object({
    id: z.string(),
    name: z.string(),
    available: z.boolean().describe('A live worker offers it.'),
    detail: z.string(),
    isolation: z.string().nullable().describe('Isolation between sandbox and host, if it is available.'),
    credentials: z.array(named),
  })
  .meta({ id: 'CatalogSandbox', description: 'A sandbox provider that can be chosen.' })

export const Catalog = z
  .object({
    models: z.array(CatalogModel),
    harnesses: z.array(CatalogHarness),
    sandboxes: z.array(CatalogSandbox),
  })
  .meta({ id: 'Catalog', description: 'The models, harnesses and sandboxes that can be chosen.' })
export type Catalog = z.infer<typeof Catalog>

const PRICE_MAX = 100_000
const usd = z.number().min(0).max(PRICE_MAX)
const level = z.enum(LEVELS)
const tokens = z.number().int().min(1).max(100_000_000)

const modelFields = {
  catalogId: z.string().regex(/^custom\/[a-z0-9][a-z0-9._-]{0,62}$/),
  name: z.string().trim().min(1).max(200).describe('Model name in requests to the provider.'),
  label: z.string().trim().min(1).max(200),
  protocol: z.enum(PROTOCOLS),
  baseUrl: z
    .url()
    .max(2000)
    .describe('Base URL of the provider for this protocol, with or without a version at its end.'),
  cloud: Cloud.optional().describe(
    'The cloud that hosts the model and authenticates calls. Omitted for a plain API with a key.',
  ),
  reasoningLevels: z.array(level).min(1).max(LEVELS.length),
  defaultReasoningLevel: level,
  prices: z
    .strictObject({ input: usd, output: usd, cacheRead: usd.optional(), cacheWrite: usd.optional() })
    .describe('USD per million tokens. Omitted cache prices equal the input price.'),
}

export const NewModel = z.strictObject({
  ...modelFields,
  contextTokens: tokens.default(128_000),
  outputTokens: tokens.default(32_000),
})
export type NewModel = z.infer<typeof NewModel>

export const CustomModel = z
  .object({ ...modelFields, contextTokens: tokens, outputTokens: tokens, createdAt: z.iso.datetime() })
  .meta({ id: 'CustomModel', description: 'A model that the workspace added.' })
export type CustomModel = z.infer<typeof CustomModel>

export const modelExists = {
  code: 'model_exists',
  status: 409,
  title: 'catalogId already used',
  meaning:
    'Only label, default level and prices of an existing model can be changed. For other changes choose a new catalogId.',
} as const satisfies ProblemKind

export const modelNameSpent = {
  code: 'model_name_spent',
  status: 409,
  title: 'catalogId of a removed model',
  meaning: 'Results of the removed model still refer to this catalogId. Choose another one.',
} as const satisfies ProblemKind

export const modelInUse = {
  code: 'model_in_use',
  status: 409,
  title: 'Model in use',
  meaning: 'An unfinished comparison uses the model. Wait until it ends, or cancel it.',
} as const satisfies ProblemKind

export const addModel = endpoint({
  id: 'addModel',
  method: 'POST',
  path: '/api/orgs/{org}/models',
  summary: 'Add a custom model, or change the prices of one',
  access: 'admin',
  body: NewModel,
  example: {
    catalogId: 'custom/house-model',
    name: 'house-model-v2',
    label: 'House model',
    protocol: 'openai-chat',
    baseUrl: 'https://models.example.com/v1',
    reasoningLevels: ['none', 'low', 'high'],
    defaultReasoningLevel: 'low',
    prices: { input: 0.5, output: 2, cacheRead: 0.05 },
  },
  answers: { 200: CustomModel, 201: CustomModel },
  problems: [modelExists, modelNameSpent],
  creates: true,
})

export const listModels = endpoint({
  id: 'listModels',
  method: 'GET',
  path: '/api/orgs/{org}/models',
  summary: 'List the models that this workspace has added',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ models: z.array(CustomModel), nextCursor: z.string().nullable() }) },
})

export const removeModel = endpoint({
  id: 'removeModel',
  method: 'DELETE',
  path: '/api/orgs/{org}/models/custom/{slug}',
  summary: 'Remove a custom model. Its catalogId cannot be reused',
  access: 'admin',
  answers: { 204: null },
  problems: [modelInUse],
})
