import type { Command } from 'commander'
import { withExample, withGlobals } from './help.ts'
import { readGlobals } from './service.ts'
import { printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

/** Adds `assay models catalog`, which needs no server, like `assay harnesses list`. */
export function addCatalogCommand(models: Command, shell: Shell): void {
  withExample(
    withGlobals(models.command('catalog'), '--json')
      .description('List the models of the catalog with their levels and prices per million tokens')
      .action((_flags: object, command: Command) => printCatalog(shell, command)),
    'assay models catalog',
  )
}

async function printCatalog(shell: Shell, command: Command): Promise<void> {
  const { listPublicModels } = await import('../src/catalog/models.ts')
  const models = listPublicModels().map(({ catalogId, label, provider, levels, defaultLevel, prices }) => ({
    catalogId,
    label,
    provider,
    reasoningLevels: levels.map(({ level }) => level),
    defaultReasoningLevel: defaultLevel,
    prices,
  }))
  if (readGlobals(command).json) return printJson(shell, { models })
  printTable(shell, models, [
    ['MODEL', ({ catalogId }) => catalogId],
    ['PROVIDER', ({ provider }) => provider],
    ['LEVELS', ({ reasoningLevels }) => reasoningLevels.join(',')],
    ['DEFAULT', ({ defaultReasoningLevel }) => defaultReasoningLevel],
    ['IN', ({ prices }) => String(prices.input)],
    ['OUT', ({ prices }) => String(prices.output)],
  ])
}
