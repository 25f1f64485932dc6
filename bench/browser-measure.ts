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
  /** Processor time. The slowdown is part of it, waiting for a busy machine is not. */
  tdur: z.number().default(0),
  pid: z.number(),
  tid: z.number(),
})
type TraceRecord = z.infer<typeof TraceRecord>

const CATEGORIES = ['devtools.timeline', 'disabled-by-default-devtools.timeline', 'blink.user_timing']

/** Records a trace while the work runs. */
async function recordTrace(browser: Browser, page: Page, work: () => Promise<void>): Promise<TraceRecord[]> {
  await browser.startTracing(page, { categories: CATEGORIES })
  await work()
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: unknown[] }
  return traceEvents.flatMap((event) => TraceRecord.safeParse(event).data ?? [])
}

/** Work after a longer pause belongs to another frame: the browser had the time to show the one before. */
const FRAME_US = 1e6 / 60

/** Returns the milliseconds of scripting and layout in each frame of the page while the work runs. */
export async function measureFrames(browser: Browser, page: Page, work: () => Promise<void>): Promise<number[]> {
  const records = await recordTrace(browser, page, work)
  const thread = findMainThread(records)
  const own = records.filter((record) => record.ph === 'X' && toThread(record) === thread).sort((a, b) => a.ts - b.ts)
  const sums: number[] = []
  let [end, sum] = [0, 0]
  const endFrame = () => {
    sums.push(sum)
    sum = 0
  }
  for (const { name, ts, dur, tdur } of own) {
    if (COUNTED.has(name) && ts >= end) {
      if (sum > 0 && ts - end > FRAME_US) endFrame()
      // Nested work is part of the work around it.
      end = ts + dur
      sum += tdur / 1000
    }
    if (name === 'Commit') endFrame()
  }
  endFrame()
  return sums
}

/** `mainThread` is processor time. Both are in milliseconds since the start of the navigation. */
type Interactive = { time: number; mainThread: number }

const MARK = 'interactive'

/**
 * Opens a page and waits until the selector matches and the page has painted twice. The page observes itself: the driver's
 * own way to wait would be executed by the thread that is measured.
 */
export async function measureInteractive(
  browser: Browser,
  page: Page,
  url: string,
  selector: string,
): Promise<Interactive> {
  const session = await page.context().newCDPSession(page)
  await session.send('Runtime.enable')
  await session.send('Page.enable')
  await session.send('Runtime.addBinding', { name: 'reportInteractive' })
  await session.send('Page.addScriptToEvaluateOnNewDocument', { source: toObserver(selector) })
  const time = new Promise<number>((resolve) => {
    session.on('Runtime.bindingCalled', ({ payload }) => resolve(Number(payload)))
  })
  const records = await recordTrace(browser, page, async () => {
    await session.send('Page.navigate', { url })
    await time
  })
  return { time: await time, mainThread: sumTasks(records) }
}

const toObserver = (selector: string): string => `(() => {
  const report = () => {
    performance.mark('${MARK}')
    reportInteractive(String(performance.now()))
  }
  const observer = new MutationObserver(() => {
    if (!document.querySelector('${selector}')) return
    observer.disconnect()
    requestAnimationFrame(() => requestAnimationFrame(report))
  })
  observer.observe(document, { childList: true, subtree: true })
})()`

/** Sums the processor time of the thread that set the mark, from the start of its navigation until the mark. */
function sumTasks(records: readonly TraceRecord[]): number {
  const mark = records.find(({ name }) => name === MARK)
  if (!mark) return Number.NaN
  const own = records.filter((record) => toThread(record) === toThread(mark) && record.ts < mark.ts)
  const start = own.findLast(({ name }) => name === 'navigationStart')?.ts ?? 0
  return own.reduce((sum, { name, ts, tdur }) => (name === 'RunTask' && ts >= start ? sum + tdur / 1000 : sum), 0)
}

const toThread = ({ pid, tid }: TraceRecord): string => `${pid}/${tid}`

/** Finds the thread that executes scripts. */
function findMainThread(records: readonly TraceRecord[]): string | undefined {
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
