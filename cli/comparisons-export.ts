import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Comparison, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import type { ComparisonPair } from '../src/comparisons/statistics/schema.ts'
import { call, ProblemReceived } from '../src/platform/http/client.ts'
import { createSettingNamer } from '../web/app/comparisons/text.ts'
import { renderComparisonPage, toTrialFile } from '../web/export/comparison-page.ts'
import { renderPairPage, toPairKey } from '../web/export/pair-page.ts'
import { renderTrialPage } from '../web/export/trial-page.ts'
import { listTrials, type ScopedComparison } from './comparison-trials.ts'
import { writeHarborJob } from './export/harbor-job.ts'
import { writeInspectLogs } from './export/inspect-log.ts'
import { forEachConcurrently, forEachTrial, readTrialTexts } from './export/trial-files.ts'
import { type TrialTableRow, toTrialRows } from './export/trial-rows.ts'
import { writeParquet, writeSqlite } from './export/trial-tables.ts'
import { WrongUse } from './failure.ts'
import { requireFileName, writeNewPath } from './paths.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatCount } from './table.ts'

export type ComparisonExportFlags = {
  html?: boolean
  output?: string
  sqlite?: string
  parquet?: string
  inspect?: string
  harbor?: string
}

/** Maximum number of trials that get pages. Other formats contain all trials. */
const TRIAL_PAGES_MAX = 5000
const PAIR_PAGES_MAX = 200

type ExportFormat = {
  /** The file or folder that is written. */
  target: string
  /** Writes to a temporary path and returns a sentence for the user. */
  write: (path: string) => Promise<string>
}

/** Writes a comparison as a file or folder, which appears when it is complete. */
export async function exportComparison(
  shell: Shell,
  service: Service,
  comparison: ScopedComparison,
  flags: ComparisonExportFlags,
): Promise<void> {
  const { target, write } = selectFormat(shell, service, comparison, flags)
  let summary = ''
  const path = await writeNewPath(target, async (temporaryPath) => {
    summary = await write(temporaryPath)
  })
  if (service.json) return printJson(shell, { path })
  note(shell, summary)
  print(shell, path)
}

/** Selects the one format that the flags name. */
function selectFormat(
  shell: Shell,
  service: Service,
  scoped: ScopedComparison,
  flags: ComparisonExportFlags,
): ExportFormat {
  const { html, output = `comparison-${scoped.id.slice(0, 8)}`, sqlite, parquet, inspect, harbor } = flags
  const readAll = () => readComparison(service, scoped)
  const readTexts = (trial: ComparisonTrial) => readTrialTexts(service, scoped, trial)
  const formats: (ExportFormat & { isChosen: boolean })[] = [
    { isChosen: html === true, target: output, write: (path) => exportPages(shell, service, scoped, path) },
    {
      isChosen: sqlite !== undefined,
      target: sqlite ?? '',
      write: async (path) => writeTable(writeSqlite, path, await readAll()),
    },
    {
      isChosen: parquet !== undefined,
      target: parquet ?? '',
      write: async (path) => writeTable(writeParquet, path, await readAll()),
    },
    {
      isChosen: inspect !== undefined,
      target: inspect ?? '',
      write: async (path) => {
        const { comparison, trials } = await readAll()
        await writeInspectLogs(path, comparison, trials, readTexts)
        return `Wrote ${formatCount(comparison.settings.length, 'log')}. To look at them: inspect view --log-dir ${inspect}`
      },
    },
    {
      isChosen: harbor !== undefined,
      target: harbor ?? '',
      write: async (path) => {
        const { comparison, trials } = await readAll()
        await writeHarborJob(shell, path, { comparison, trials, readTexts })
        return `Wrote ${formatCount(trials.length, 'trial')}. To look at them: harbor view ${dirname(resolve(harbor ?? ''))}`
      },
    },
  ]
  const [format, ...others] = formats.filter(({ isChosen }) => isChosen)
  if (!format || others.length > 0)
    throw new WrongUse('Choose one format: --html, --sqlite, --parquet, --inspect or --harbor.')
  if (html !== true && flags.output !== undefined) throw new WrongUse('--output can only be used with --html.')
  return format
}

type ComparisonWithTrials = { comparison: Comparison; trials: ComparisonTrial[] }

async function readComparison(service: Service, scoped: ScopedComparison): Promise<ComparisonWithTrials> {
  const { endpoints } = scoped.scope
  const params = { org: service.org, ...scoped.scope.params, comparisonId: scoped.id }
  const { body: comparison } = await call(service, endpoints.read, { params })
  return { comparison, trials: await listTrials(service, scoped, {}) }
}

async function writeTable(
  write: (file: string, rows: readonly TrialTableRow[]) => Promise<void>,
  path: string,
  { comparison, trials }: ComparisonWithTrials,
): Promise<string> {
  await write(path, toTrialRows(comparison, trials))
  return `Wrote ${formatCount(trials.length, 'trial')}.`
}

async function exportPages(shell: Shell, service: Service, scoped: ScopedComparison, folder: string): Promise<string> {
  await mkdir(folder)
  const pageCount = await writePages(shell, service, scoped, folder)
  return `Wrote ${pageCount} pages. Open index.html in a browser:`
}

/** Writes all pages and returns their number. */
async function writePages(shell: Shell, service: Service, scoped: ScopedComparison, folder: string): Promise<number> {
  const { endpoints, params: scope } = scoped.scope
  const params = { org: service.org, ...scope, comparisonId: scoped.id }
  const { body: comparison } = await call(service, endpoints.read, { params })
  const { body: matrix } = await call(service, endpoints.matrix, { params })
  const trials = await listTrials(service, scoped, {}, TRIAL_PAGES_MAX)
  for (const { id } of trials) requireFileName(id)
  const pairs = await listPairs(service, scoped)
  await writeFile(join(folder, 'style.css'), await readStylesheet())
  const pairFiles = await writePairs(service, scoped, { comparison, pairs, trials, folder })
  await mkdir(join(folder, 'trials'))
  const nameOf = createSettingNamer(comparison.settings)
  const trialsByTask = Map.groupBy(trials, ({ task }) => task.name)
  await forEachTrial(shell, trials, async (trial) => {
    const others = (trialsByTask.get(trial.task.name) ?? [])
      .filter(({ id }) => id !== trial.id)
      .map((other) => ({ trial: other, settingName: nameOf(other.settingId) }))
    const texts = await readTrialTexts(service, scoped, trial)
    const page = renderTrialPage({ trial, texts, settingName: nameOf(trial.settingId), others })
    await writeFile(join(folder, toTrialFile(trial.id)), page)
  })
  const index = renderComparisonPage({ comparison, matrix, pairs, trials, pairFiles })
  await writeFile(join(folder, 'index.html'), index)
  return 1 + trials.length + pairFiles.size
}

/** Lists all pairs. Empty if no two settings share a task. */
async function listPairs(service: Service, { scope, id }: ScopedComparison): Promise<ComparisonPair[]> {
  const params = { org: service.org, ...scope.params, comparisonId: id }
  try {
    return (await call(service, scope.endpoints.pairs, { params })).body.pairs
  } catch (error) {
    if (error instanceof ProblemReceived && error.problem.status === 422) return []
    throw error
  }
}

type PairPagesInput = {
  comparison: Comparison
  pairs: readonly ComparisonPair[]
  trials: readonly ComparisonTrial[]
  folder: string
}

/** Writes a page per pair and returns their paths by `toPairKey`. Writes none if there are too many pairs. */
async function writePairs(service: Service, { scope, id }: ScopedComparison, input: PairPagesInput) {
  const { comparison, pairs, trials, folder } = input
  const files = new Map<string, string>()
  if (pairs.length > PAIR_PAGES_MAX) return files
  await mkdir(join(folder, 'pairs'))
  const firstTrialFiles = new Map(
    trials
      .filter(({ attempt }) => attempt === 1)
      .map((trial) => [`${trial.task.name} ${trial.settingId}`, toTrialFile(trial.id)]),
  )
  await forEachConcurrently([...pairs.entries()], async ([position, { a, b }]) => {
    const params = { org: service.org, ...scope.params, comparisonId: id, a, b }
    const { body } = await call(service, scope.endpoints.pair, { params })
    const file = `pairs/${position + 1}.html`
    const page = renderPairPage(comparison, body, (task, setting) => firstTrialFiles.get(`${task} ${setting}`))
    await writeFile(join(folder, file), page)
    files.set(toPairKey({ a, b }), file)
  })
  return files
}

/** Reads the styles of the public pages. Fonts are left out, because exported pages must not request anything. */
async function readStylesheet(): Promise<string> {
  const files = ['tokens.css', 'base.css', 'site.css', 'export.css']
  const texts = await Promise.all(
    files.map((file) => readFile(new URL(`../web/assets/${file}`, import.meta.url), 'utf8')),
  )
  return texts.join('').replaceAll(/@font-face \{[^}]*url\([^}]*\}\n/g, '')
}
