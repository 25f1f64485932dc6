import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { type HistoryCommit, writeHistory } from '../test/support/histories.ts'
import { atMost, type BenchMeasurement, mebibytes, note, seconds } from './measure.ts'

const COMMITS = 20_000
const FILES = 2_000
const PULL_REQUESTS = 5_000
const LINES = 60
const START = 1_500_000_000
const HOUR = 3600
const BIN = new URL('../bin/assay', import.meta.url).pathname

export const scanBench: BenchMeasurement = {
  name: 'Scan',
  about: `\`assay scan\` on a clone of ${COMMITS} commits, ${FILES} files and ${PULL_REQUESTS} pull requests, a third of them merges and the others squashed, of which about a fifth are candidates. Memory includes all git processes that the command starts.`,
  run: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'assay-bench-scan-'))
    try {
      await writeHistory(join(folder, 'clone'), history())
      const first = await runScan(folder)
      const second = await runScan(folder)
      if (first.out !== second.out) throw new Error('The second scan returned a different result.')
      const { funnel } = Scan.parse(JSON.parse(first.out))
      if (funnel.recognised !== PULL_REQUESTS)
        throw new Error(`${funnel.recognised} of ${PULL_REQUESTS} pull requests were recognised.`)
      const { easy, medium, hard } = funnel.candidates
      return [
        atMost('the first scan', first.seconds, 60, seconds),
        atMost('peak memory of the first scan', first.memory, 400, mebibytes),
        atMost('the second scan', second.seconds, 5, seconds),
        note('peak memory of the second scan', mebibytes(second.memory)),
        note('candidates', `${easy} easy, ${medium} medium, ${hard} hard`),
      ]
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const Scan = z.object({
  funnel: z.object({
    recognised: z.number(),
    candidates: z.object({ easy: z.number(), medium: z.number(), hard: z.number() }),
  }),
})

async function runScan(folder: string) {
  const started = performance.now()
  const env = { PATH: process.env.PATH ?? '', HOME: folder, XDG_CACHE_HOME: join(folder, 'cache') }
  const child = spawn(process.execPath, [BIN, 'scan', join(folder, 'clone'), '--json'], { env })
  let memory = 0
  const sampler = setInterval(() => {
    memory = Math.max(memory, memoryOf(child.pid ?? 0))
  }, 20)
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  clearInterval(sampler)
  if (code !== 0) throw new Error(`assay scan ended with ${code}.`)
  return { out, memory, seconds: (performance.now() - started) / 1000 }
}

/** Returns the current memory of a process and its descendants, in MiB. */
function memoryOf(root: number): number {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    const parent = /^PPid:\s+(\d+)/m.exec(statusOf(name))?.[1]
    if (parent !== undefined) parents.set(Number(name), Number(parent))
  }
  const isOurs = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === root || isOurs(parents.get(pid)))
  const own = [...parents.keys()].filter(isOurs)
  return own.reduce((sum, pid) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(statusOf(String(pid)))?.[1] ?? 0) / 1024, 0)
}

function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return '' // The process has ended.
  }
}

/** Generates commits of which about a quarter are pull requests; every third of those is a merge with two commits. */
function* history(): Generator<HistoryCommit> {
  yield {
    message: 'start',
    files: Object.fromEntries(Array.from({ length: FILES }, (_, n) => [pathOf(n), textOf(n, 0)])),
  }
  const merges = Math.floor(PULL_REQUESTS / 3)
  const mainlineCommits = COMMITS - 1 - merges
  let pull = 0
  for (let n = 1; n <= mainlineCommits; n += 1) {
    const isPull = pull < Math.floor((n * PULL_REQUESTS) / mainlineCommits)
    if (isPull) pull += 1
    const at = START + n * HOUR
    yield isPull
      ? { ...pullRequest(pull, n), at }
      : { at, message: `Work ${n}`, files: { [pathOf(n % FILES)]: textOf(n % FILES, n) } }
  }
}

const WORDS = ['Fix the parser', 'Add an option', 'Make it quick', 'Handle the empty case']

/** Uses the mix of real repositories: bots 8 %, chores 23 %, no source 27 %, no tests 18 %, sizes 4 %. */
function pullRequest(pull: number, n: number): HistoryCommit {
  const percentile = (pull * 37) % 100
  const isMerge = pull % 3 === 0
  const title = percentile < 31 && percentile >= 8 ? `chore: tidy ${n}` : `${WORDS[n % WORDS.length]} ${n}`
  const message = isMerge
    ? `Merge pull request #${pull} from ${percentile < 8 ? 'acme/dependabot/npm' : 'ada/fix'}\n\n${title}`
    : `${title} (#${pull})`
  return { message, isMerge, author: percentile < 8 ? 'dependabot[bot]' : 'Ada', files: changedFiles(percentile, n) }
}

function changedFiles(percentile: number, n: number): Record<string, string> {
  const source = { [pathOf(n % FILES)]: textOf(n % FILES, n) }
  const tests = { [`tests/test_${n % 500}.py`]: textOf(n, n) }
  if (percentile < 31) return { ...source, ...tests }
  if (percentile < 58)
    return percentile % 2 === 0 ? { 'README.md': textOf(1, n) } : { 'package.json': `{"version": "${n}"}\n` }
  if (percentile < 76) return source
  if (percentile < 80) return { [pathOf(n % FILES)]: textOf(n % FILES, n).repeat(40), ...tests }
  const width = [1, 1, 2, 3, 6][n % 5] ?? 1
  const more = Array.from({ length: width }, (_, at) => (n + at * 7) % FILES)
  return { ...Object.fromEntries(more.map((file) => [pathOf(file), textOf(file, n)])), ...tests }
}

const pathOf = (n: number): string => `src/part${n % 40}/module${n}.py`

/** Returns a text in which a few lines differ per version. */
const textOf = (file: number, time: number): string =>
  Array.from({ length: LINES }, (_, at) => {
    const isNew = at % 12 === time % 12
    return `def step_${at}(value): return compute(value, ${file}, ${isNew ? time : at})\n`
  }).join('')
