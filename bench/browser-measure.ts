import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Browser, Page } from 'playwright-core'
import { z } from 'zod'

/** Work on the main thread that delays a frame. */
const WORK = ['FunctionCall', 'EvaluateScript', 'FireAnimationFrame', 'EventDispatch', 'TimerFire', 'RunMicrotasks']
const LAYOUT = ['Layout', 'UpdateLayoutTree', 'UpdateLayerTree', 'PrePaint']
const COUNTED = new Set([...WORK, ...LAYOUT])

const TraceRecord = z.object({
  name: z.string(),
  ph: z.string(),
  ts: z.number().default(0),
  dur: z.number().default(0),
  pid: z.number(),
  tid: z.number(),
})
type TraceRecord = z.infer<typeof TraceRecord>

/** Records a trace while the work runs. Returns the milliseconds of scripting and layout in each frame of the page. */
export async function measureFrames(browser: Browser, page: Page, work: () => Promise<void>): Promise<number[]> {
  await browser.startTracing(page, {
    categories: ['devtools.timeline', 'devtools.timeline.frame', 'disabled-by-default-devtools.timeline'],
  })
  await work()
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: unknown[] }
  const records = traceEvents.flatMap((event) => TraceRecord.safeParse(event).data ?? [])
  return sumByFrame(records)
}

function sumByFrame(records: readonly TraceRecord[]): number[] {
  const counted = records.filter(({ name, ph }) => ph === 'X' && COUNTED.has(name))
  const thread = findBusiest(counted)
  const own = counted.filter((record) => toThread(record) === thread).sort((a, b) => a.ts - b.ts)
  const frames = records
    .filter((record) => record.name === 'BeginMainThreadFrame' && toThread(record) === thread)
    .map(({ ts }) => ts)
    .sort((a, b) => a - b)
  const sums = frames.map(() => 0)
  let [end, frame] = [0, -1]
  for (const { ts, dur } of own) {
    while (frame + 1 < frames.length && (frames[frame + 1] ?? 0) <= ts) frame += 1
    // Nested work is part of the work around it.
    const from = Math.max(ts, end)
    end = Math.max(end, ts + dur)
    if (frame >= 0) sums[frame] = (sums[frame] ?? 0) + Math.max(0, ts + dur - from) / 1000
  }
  return sums
}

const toThread = ({ pid, tid }: TraceRecord): string => `${pid}/${tid}`

function findBusiest(records: readonly TraceRecord[]): string | undefined {
  const sums = new Map<string, number>()
  for (const record of records)
    if (record.name === 'FireAnimationFrame' || record.name === 'FunctionCall')
      sums.set(toThread(record), (sums.get(toThread(record)) ?? 0) + record.dur)
  return [...sums].sort(([, a], [, b]) => b - a)[0]?.[0]
}

/** Collects the JavaScript that a page loads. Returns a function that sums the gzipped bytes so far. */
export function countScripts(page: Page): () => Promise<number> {
  const scripts = new Map<string, Promise<Buffer>>()
  page.on('response', (response) => {
    if (/\.js(\?|$)/.test(response.url()) && !scripts.has(response.url())) scripts.set(response.url(), response.body())
  })
  return async () =>
    (await Promise.all(scripts.values())).reduce((sum, body) => sum + gzipSync(body, { level: 9 }).byteLength, 0)
}

/** Returns the memory of the page's process in bytes, shared pages divided among their users (PSS). */
export async function readMemory(browser: Browser, page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.enable')
  await session.send('HeapProfiler.collectGarbage')
  const root = await browser.newBrowserCDPSession()
  const { processInfo } = await root.send('SystemInfo.getProcessInfo')
  const renderers = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => readPss(id))
  return Math.max(...renderers)
}

const readPss = (pid: number): number =>
  1024 * Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)

/** Slows the processor of a page down. */
export async function slowDown(page: Page, rate: number): Promise<void> {
  const session = await page.context().newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate })
}

/** Waits until the selector matches and the page has painted twice. Returns the milliseconds since the navigation. */
export async function waitUntilInteractive(page: Page, selector: string): Promise<number> {
  await page.locator(selector).first().waitFor({ timeout: 120_000 })
  return page.evaluate<number>(
    'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))',
  )
}
