import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Program } from '../test/support/program.ts'
import { startService } from '../test/support/service.ts'
import { atMost, type BenchMeasurement, mebibytes, median, note, seconds } from './measure.ts'

const ROUNDS = 5
const SETTLE_MS = 10_000

export const startBench: BenchMeasurement = {
  name: 'Start and size',
  about: `assay serve with its embedded PostgreSQL, from the command to the first answer of /readyz; medians of ${ROUNDS}. Memory after ${SETTLE_MS / 1000} s without requests.`,
  run: async () => {
    const colds: number[] = []
    const warms: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
      colds.push(await timeToAnswer(folder))
      warms.push(await timeToAnswer(folder))
      rmSync(folder, { recursive: true, force: true })
    }
    const { rss, pss } = await idleMemory()
    return [
      atMost('cold start, new data folder', median(colds), 5, seconds),
      atMost('start on an existing data folder', median(warms), 2, seconds),
      atMost('idle memory, RSS of all processes added', rss, 350, mebibytes),
      note('idle memory, PSS (shared pages counted once)', mebibytes(pss)),
    ]
  },
}

async function timeToAnswer(folder: string): Promise<number> {
  const started = performance.now()
  const service = await startService('serve', ['--data', folder, '--port', '0'])
  await fetch(`${service.url}/readyz`)
  const took = (performance.now() - started) / 1000
  await service.kill('SIGTERM')
  return took
}

async function idleMemory(): Promise<{ rss: number; pss: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  const service = await startService('serve', ['--data', folder, '--port', '0'])
  await wait(SETTLE_MS)
  const pids = [service.process.pid ?? 0, ...postgresPids(folder)]
  const sum = (field: string) => pids.reduce((total, pid) => total + memoryOf(pid, field), 0) / 1024
  const sizes = { rss: sum('Rss'), pss: sum('Pss') }
  await stop(service, folder)
  return sizes
}

async function stop(service: Program, folder: string): Promise<void> {
  await service.kill('SIGTERM')
  rmSync(folder, { recursive: true, force: true })
}

/** Memory of the postmaster and its children. */
function postgresPids(folder: string): number[] {
  const file = readdirSync(join(folder, 'postgres/data')).find((name) => name === 'postmaster.pid') ?? ''
  const postmaster = Number(readFileSync(join(folder, 'postgres/data', file), 'utf8').split('\n')[0])
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8')
  return [postmaster, ...children.trim().split(/\s+/).map(Number)]
}

const memoryOf = (pid: number, field: string): number => {
  const file = `/proc/${pid}/smaps_rollup`
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
}
