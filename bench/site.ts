import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import autocannon from 'autocannon'
import type pg from 'pg'
import type { Browser } from 'playwright-core'
import { call } from '../src/platform/http/client.ts'
import { previewRelease, publishRelease } from '../src/releases/schema.ts'
import { connectRepository } from '../src/repos/schema.ts'
import { startBrowser } from '../test/support/browser.ts'
import { startProgram } from '../test/support/program.ts'
import { insertApprovedTasks, insertComparison } from '../test/support/releases.ts'
import { createDemoFixtures } from '../test/support/site.ts'
import { withApi } from './api.ts'
import {
  atLeast,
  atMost,
  type BenchMeasurement,
  type MeasureRow,
  median,
  milliseconds,
  note,
  perSecond,
  seconds,
  times,
} from './measure.ts'

const BARE = new URL('bare-bytes.ts', import.meta.url).pathname
const PLACE = { org: 'local', owner: 'lab', name: 'demo' }
const PATH = `/results/${PLACE.owner}/${PLACE.name}`
const TASKS = 48
const ROUNDS = 3
const SECONDS = 3
/** A phone on a slow connection: the profile that Lighthouse calls slow 4G. */
const NETWORK = { latency: 150, downloadThroughput: (1.6 * 1024 * 1024) / 8, uploadThroughput: (750 * 1024) / 8 }
const CPU_SLOWDOWN = 4
const VISITS = 5

export const siteBench: BenchMeasurement = {
  name: 'Public pages',
  about: `The page of a repository with nine settings. Chromium with ${CPU_SLOWDOWN} × CPU slowdown, 1.6 Mbit/s and ${NETWORK.latency} ms latency, an empty cache, 360 px wide, medians of ${VISITS} visits. Ratios are to a bare node:http server that sends the same bytes, medians of ${ROUNDS} alternating rounds of ${SECONDS} s, 50 connections.`,
  run: () =>
    withApi(async ({ url, key, folder, pool }) => {
      await publish({ url, key }, pool)
      return [...(await measureVisits(url)), ...(await measureThroughput(url, folder))]
    }),
}

async function publish(client: { url: string; key: string }, pool: pg.Pool): Promise<void> {
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await call(client, connectRepository, { params: PLACE, body: { source, visibility: 'public' } })
  const { rows } = await pool.query('select key, workspace_id from repositories where name = $1', [PLACE.name])
  const digests = await insertApprovedTasks(pool, rows[0].key, TASKS)
  const where = { workspaceId: rows[0].workspace_id, repository: rows[0].key, ...PLACE, digests }
  await insertComparison(pool, where, createDemoFixtures(TASKS, 3))
  const { body } = await call(client, previewRelease, { params: PLACE })
  const { head, fingerprint } = body
  const settings = body.settings.map((setting) => setting.key)
  await call(client, publishRelease, { params: PLACE, body: { settings, head, fingerprint } })
}

type Visit = { lcp: number; cls: number; bytes: number }

async function measureVisits(url: string): Promise<MeasureRow[]> {
  const browser = await startBrowser()
  try {
    const visits: Visit[] = []
    for (let round = 0; round < VISITS; round++) visits.push(await visit(browser, `${url}${PATH}`))
    return [
      atMost('repository page, largest contentful paint', median(visits.map(({ lcp }) => lcp / 1000)), 2, seconds),
      atMost('repository page, layout shift', Math.max(...visits.map(({ cls }) => cls)), 0.02, (n) => n.toFixed(3)),
      atMost('first visit, transferred with fonts', median(visits.map(({ bytes }) => bytes / 1000)), 150, kilobytes),
    ]
  } finally {
    await browser.close()
  }
}

const kilobytes = (n: number): string => `${Math.round(n)} kB`

/** Collects the paints and shifts of a page from its beginning. */
const OBSERVE = `
  window.vitals = { lcp: 0, cls: 0 }
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) vitals.lcp = entry.startTime })
    .observe({ type: 'largest-contentful-paint', buffered: true })
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) vitals.cls += entry.value })
    .observe({ type: 'layout-shift', buffered: true })`

async function visit(browser: Browser, url: string): Promise<Visit> {
  const context = await browser.newContext({ viewport: { width: 360, height: 740 } })
  try {
    const page = await context.newPage()
    const session = await context.newCDPSession(page)
    await session.send('Network.enable')
    await session.send('Network.emulateNetworkConditions', { offline: false, ...NETWORK })
    await session.send('Emulation.setCPUThrottlingRate', { rate: CPU_SLOWDOWN })
    let bytes = 0
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength
    })
    await page.addInitScript(OBSERVE)
    await page.goto(url, { waitUntil: 'networkidle' })
    const { lcp, cls } = await page.evaluate<{ lcp: number; cls: number }>('vitals')
    return { lcp, cls, bytes }
  } finally {
    await context.close()
  }
}

async function measureThroughput(url: string, folder: string): Promise<MeasureRow[]> {
  const response = await fetch(`${url}${PATH}`, { headers: { 'accept-encoding': 'identity' } })
  const body = Buffer.from(await response.arrayBuffer())
  const path = join(folder, 'body')
  writeFileSync(path, body)
  const bare = await startProgram(BARE, [], { BENCH_BODY: path, BENCH_ETAG: response.headers.get('etag') ?? '' })
  try {
    const [ours, theirs, p99]: [number[], number[], number[]] = [[], [], []]
    await load(`${url}${PATH}`)
    for (let round = 0; round < ROUNDS; round++) {
      theirs.push((await load(bare.url)).requests.average)
      const { requests, latency } = await load(`${url}${PATH}`)
      ours.push(requests.average)
      p99.push(latency.p99)
    }
    return [
      atLeast(
        `page (${Math.round(body.byteLength / 1024)} KiB), ratio to bare`,
        median(ours) / median(theirs),
        0.5,
        times,
      ),
      note('requests per second: ours, bare', `${perSecond(median(ours))}, ${perSecond(median(theirs))}`),
      atMost('page, p99 with 50 connections', median(p99), 20, milliseconds),
    ]
  } finally {
    await bare.kill('SIGKILL')
  }
}

async function load(url: string): Promise<autocannon.Result> {
  const result = await autocannon({ url, connections: 50, duration: SECONDS })
  if (result.errors > 0 || result['2xx'] === 0) throw new Error(`${url}: ${result.errors} errors`)
  return result
}
