import { z } from 'zod'

const named = z.object({ id: z.uuid(), name: z.string() })

export const CatalogModel = z
  .object({
    catalogId: z.string(),
    name: z.string(),
    label: z.string(),
    provider: z.string(),
    custom: z.boolean(),
    reasoningLevels: z.array(z.string()).min(1),
    defaultReasoningLevel: z.string(),
    harnesses: z.array(z.string()).min(1).describe('Those that can work with this model.'),
    prices: z
      .object({
        input: z.number(),
        output: z.number(),
        cacheRead: z.number().optional(),
        cacheWrite: z.number().optional(),
      })
      .describe('USD for a million tokens.'),
    credentials: z.array(named).describe('Credentials of this workspace that open it.'),
  })
  .meta({ id: 'CatalogModel' })
export type CatalogModel = z.infer<typeof CatalogModel>

export const CatalogHarness = z
  .object({
    id: z.string(),
    name: z.string(),
    version: z.string(),
    protocols: z.array(z.string()).describe('How it can speak to a model. None: it needs no model.'),
  })
  .meta({ id: 'CatalogHarness' })
export type CatalogHarness = z.infer<typeof CatalogHarness>

const CatalogSandbox = z
  .object({
    id: z.string(),
    name: z.string(),
    available: z.boolean().describe('A worker that lives now offers it.'),
    detail: z.string(),
    isolation: z.string().nullable().describe('What stands between a sandbox and the machine, where it is available.'),
    credentials: z.array(named),
  })
  .meta({ id: 'CatalogSandbox' })

export const Catalog = z
  .object({
    models: z.array(CatalogModel),
    harnesses: z.array(CatalogHarness),
    sandboxes: z.array(CatalogSandbox),
  })
  .meta({ id: 'Catalog' })
export type Catalog = z.infer<typeof Catalog>
