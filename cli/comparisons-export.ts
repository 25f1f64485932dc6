import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Comparison, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import type { ComparisonPair } from '../src/comparisons/statistics/schema.ts'
import { call, download, ProblemReceived } from '../src/platform/http/client.ts'
import { createNames } from '../web/app/comparisons/text.ts'
import { renderComparisonPage, toTrialFile } from '../web/export/comparison-page.ts'
import { renderPairPage, toPairKey } from '../web/export/pair-page.ts'
import { renderTrialPage, type TrialTexts } from '../web/export/trial-page.ts'
import { listTrials, type ScopedComparison } from './comparison-trials.ts'
import { WrongUse } from './failure.ts'
import type { Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'

export type ExportFlags = { html?: boolean; output?: string }

const TRIALS_MAX = 5000
const PAIR_PAGES_MAX = 200
const CONCURRENCY = 6
/** Maximum size of a file that is rendered. Pages show less than this of longer files. */
const FILE_BYTES_MAX = 16 * 1024 * 1024
const PROGRESS_MS = 10_000

/** Writes a comparison as a folder of pages that open from disk. The folder appears when it is complete. */
export async function exportComparison(
  shell: Shell,
  service: Service,
  comparison: ScopedComparison,
  flags: ExportFlags,
): Promise<void> {
  if (!flags.html) throw new WrongUse('Add --html, the format of the export.')
  const folder = resolve(flags.output ?? `comparison-${comparison.id.slice(0, 8)}`)
  if (existsSync(folder)) throw new WrongUse(`${folder} already exists. Choose another folder with --output.`)
  await mkdir(dirname(folder), { recursive: true })
  const partial = await mkdtemp(`${folder}.`)
  try {
    const pages = await writePages(shell, service, comparison, partial)
    await rename(partial, folder)
    if (service.json) return printJson(shell, { folder, pages })
    note(shell, `Wrote ${pages} pages. Open ${join(folder, 'index.html')} in a browser.`)
    print(shell, folder)
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}

async function writePages(shell: Shell, service: Service, scoped: ScopedComparison, folder: string): Promise<number> {
  const { endpoints, params: scope } = scoped.scope
  const params = { org: service.org, ...scope, comparisonId: scoped.id }
  const { body: comparison } = await call(service, endpoints.read, { params })
  const { body: matrix } = await call(service, endpoints.matrix, { params })
  const trials = await listTrials(service, scoped, {}, TRIALS_MAX)
  const pairs = await listPairs(service, scoped)
  await writeFile(join(folder, 'style.css'), await readStylesheet())
  const pairFiles = await writePairs(service, scoped, { comparison, pairs, trials, folder })
  await mkdir(join(folder, 'trials'))
  const name = createNames(comparison.settings)
  const byTask = Map.groupBy(trials, ({ task }) => task.name)
  const report = createProgress(shell, trials.length)
  await forEachConcurrently(trials, async (trial) => {
    const others = (byTask.get(trial.task.name) ?? [])
      .filter(({ id }) => id !== trial.id)
      .map((other) => ({ trial: other, settingName: name(other.settingId) }))
    const texts = await readTexts(service, scoped, trial)
    const page = renderTrialPage({ trial, texts, settingName: name(trial.settingId), others })
    await writeFile(join(folder, toTrialFile(trial.id)), page)
    report()
  })
  const index = renderComparisonPage({ comparison, matrix, pairs, trials, pairFiles })
  await writeFile(join(folder, 'index.html'), index)
  return 1 + trials.length + pairFiles.size
}

/** Prints progress from time to time. */
function createProgress(shell: Shell, total: number): () => void {
  let [done, reportedAt] = [0, Date.now()]
  return () => {
    done += 1
    if (Date.now() - reportedAt < PROGRESS_MS) return
    reportedAt = Date.now()
    note(shell, `${done} of ${total} trials`)
  }
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

/** Writes a page per pair and returns their files. With too many pairs, only the table on the first page has them. */
async function writePairs(service: Service, { scope, id }: ScopedComparison, input: PairPagesInput) {
  const { comparison, pairs, trials, folder } = input
  const files = new Map<string, string>()
  if (pairs.length > PAIR_PAGES_MAX) return files
  await mkdir(join(folder, 'pairs'))
  const first = new Map(
    trials
      .filter(({ attempt }) => attempt === 1)
      .map((trial) => [`${trial.task.name} ${trial.settingId}`, toTrialFile(trial.id)]),
  )
  await forEachConcurrently([...pairs.entries()], async ([position, { a, b }]) => {
    const params = { org: service.org, ...scope.params, comparisonId: id, a, b }
    const { body } = await call(service, scope.endpoints.pair, { params })
    const file = `pairs/${position + 1}.html`
    const page = renderPairPage(comparison, body, (task, setting) => first.get(`${task} ${setting}`))
    await writeFile(join(folder, file), page)
    files.set(toPairKey({ a, b }), file)
  })
  return files
}

/** Reads the patch, the verifier's output and the first trajectory of a trial. */
async function readTexts(service: Service, { scope, id }: ScopedComparison, trial: ComparisonTrial) {
  const params = { org: service.org, ...scope.params, comparisonId: id, trialId: trial.reusedFrom ?? trial.id }
  const readFirst = async (pattern: RegExp): Promise<string | undefined> => {
    const artifact = trial.artifacts.find(({ name }) => pattern.test(name))
    if (!artifact) return undefined
    if (artifact.bytes > FILE_BYTES_MAX)
      return `The file has ${artifact.bytes} bytes. To save it: assay trials artifacts ${trial.id} ${artifact.name} --output <path>`
    const { bytes } = await download(service, scope.endpoints.artifact, {
      params: { ...params, artifact: artifact.name },
    })
    return new TextDecoder().decode(bytes)
  }
  const texts: TrialTexts = {
    patch: await readFirst(/^changes\.patch$/),
    verifier: await readFirst(/^verifier[^/]*\.log$/),
    trajectory: await readFirst(/^trajectory[^/]*\.json$/),
  }
  return texts
}

/** The styles of the public pages without their fonts, which would be requests. */
async function readStylesheet(): Promise<string> {
  const files = ['tokens.css', 'base.css', 'site.css', 'export.css']
  const texts = await Promise.all(
    files.map((file) => readFile(new URL(`../web/assets/${file}`, import.meta.url), 'utf8')),
  )
  return texts.join('').replaceAll(/@font-face \{[^}]*url\([^}]*\}\n/g, '')
}

async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (const item of queue) await work(item)
    }),
  )
}
