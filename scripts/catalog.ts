import { readFile, writeFile } from 'node:fs/promises'
import { Snapshot, type SnapshotModel } from '../src/catalog/models.ts'
import { buildModel, Picks } from './catalog-build.ts'
import { compareSnapshots } from './catalog-changes.ts'
import picks from './catalog-picks.json' with { type: 'json' }
import { type CatalogSource, listSourceNames, withSources } from './catalog-sources.ts'

// Regenerates src/catalog/models.json from public catalogs and prints the changes, which must be reviewed.
// Stops at changes that look like mistakes, unless --accept-surprises is set. --dry-run writes nothing.

const TARGET = new URL('../src/catalog/models.json', import.meta.url)

async function main(): Promise<void> {
  const today = new Date()
  const { models, rejections } = await withSources(today, buildModels)
  const before = Snapshot.parse(JSON.parse(await readFile(TARGET, 'utf8')))
  const { lines, surprises } = compareSnapshots(before.models, models, today)

  for (const line of rejections) console.info(`- ${line}`)
  for (const line of [...lines, ...surprises.map((line) => `! ${line}`)]) console.info(line)
  console.info(`${models.length} models, ${lines.length} differences, ${surprises.length} surprises.`)
  if (surprises.length > 0 && !process.argv.includes('--accept-surprises')) {
    process.exitCode = 1
    return console.info('Nothing was written. If the surprises are correct, repeat with --accept-surprises.')
  }
  if (process.argv.includes('--dry-run') || lines.length + surprises.length === 0) return
  const snapshot = Snapshot.parse({ asOf: today.toISOString().slice(0, 10), sources: listSourceNames(), models })
  await writeFile(TARGET, `${JSON.stringify(snapshot, null, 2)}\n`)
  console.info('Next: run npm run format and review the diff.')
}

async function buildModels(sources: CatalogSource[]): Promise<{ models: SnapshotModel[]; rejections: string[] }> {
  const models: SnapshotModel[] = []
  const rejections: string[] = []
  for (const [provider, { providers, protocols, models: pickedModels }] of Object.entries(Picks.parse(picks))) {
    for (const pick of pickedModels) {
      const results = await Promise.all(sources.map((source) => source.find(providers[source.name], pick.name)))
      const sourceModels = results.flatMap((result) => (result ? [result] : []))
      const model = buildModel({ provider, protocols }, pick, sourceModels)
      if (typeof model === 'string') rejections.push(`${provider}/${pick.name} is rejected: ${model}.`)
      else models.push(model)
    }
  }
  return { models, rejections }
}

await main()
