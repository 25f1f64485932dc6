import type pg from 'pg'
import type { Browser, Page } from 'playwright-core'
import { openBrowser, signIn } from '../test/support/browser.ts'
import { withApi } from './api.ts'
import { changeTrial, EVENTS, insertAppData, SETTINGS, TASKS } from './app-data.ts'
import { countScripts, measureFrames, measureInteractive, readMemory, slowDown } from './browser-measure.ts'
import { atMost, type BenchMeasurement, type MeasureRow, median, milliseconds, note, seconds } from './measure.ts'

const CPU_SLOWDOWN = 4
const SCROLL_FRAMES = 180
const UPDATES = 8
const VISITS = 3

export const appBench: BenchMeasurement = {
  name: 'Workspace app',
  about: `Chromium with ${CPU_SLOWDOWN} × CPU slowdown. A map of ${TASKS} tasks × ${SETTINGS} settings, a trajectory of ${EVENTS.toLocaleString('en')} events, a log of 100 MB. Interactive: the first lines are painted after a navigation with an empty cache, medians of ${VISITS}. Work is measured as processor time of the page's main thread, slowdown included, so that it does not depend on what else the machine does. Memory is that of the page's process (PSS).`,
  run: () =>
    withApi(async ({ folder, ...api }) => {
      const browser = await openBrowser()
      try {
        const context = { browser, ...api, ...(await insertAppData(api, api.pool, folder)) }
        return [
          ...(await measureScripts(context)),
          ...(await measureMap(context)),
          ...(await measureTrace(context)),
          ...(await measureLog(context)),
        ]
      } finally {
        await browser.close()
      }
    }),
}

type AppBenchContext = { browser: Browser; url: string; key: string; pool: pg.Pool } & Awaited<
  ReturnType<typeof insertAppData>
>

/** Opens a page in a new context, signed in. */
async function withPage<T>({ browser, url, key }: AppBenchContext, work: (page: Page) => Promise<T>): Promise<T> {
  const context = await browser.newContext({ baseURL: url, viewport: { width: 1440, height: 900 } })
  try {
    const page = await context.newPage()
    await signIn(page, key, '/app/keys')
    return await work(page)
  } finally {
    await context.close()
  }
}

const kilobytes = (n: number): string => `${Math.round(n / 1000)} kB`
const megabytes = (n: number): string => `${Math.round(n / 1e6)} MB`

async function measureScripts(context: AppBenchContext): Promise<MeasureRow[]> {
  const page = await context.browser.newPage({ baseURL: context.url })
  const sumScripts = countScripts(page)
  await signIn(page, context.key)
  await page.waitForLoadState('networkidle')
  const firstBytes = await sumScripts()
  await page.goto(`${context.trialPath}?tab=diff`)
  await page.locator('.code-keyword').first().waitFor()
  await page.waitForLoadState('networkidle')
  const trialBytes = (await sumScripts()) - firstBytes
  await page.close()
  return [
    atMost('first load, gzipped JavaScript', firstBytes, 200_000, kilobytes),
    atMost('trial page with a diff, more gzipped JavaScript', trialBytes, 120_000, kilobytes),
  ]
}

const SCROLL = `new Promise((done) => {
  const map = document.querySelector('.map-scroll')
  let [frames, step] = [0, 24]
  const move = () => {
    if (map.scrollLeft + map.clientWidth >= map.scrollWidth - 1) step = -24
    if (map.scrollLeft <= 0) step = 24
    map.scrollLeft += step
    if (++frames < ${SCROLL_FRAMES}) requestAnimationFrame(move)
    else done()
  }
  requestAnimationFrame(move)
})`

async function measureMap(context: AppBenchContext): Promise<MeasureRow[]> {
  const { browser, pool, comparison, comparisonPath } = context
  return withPage(context, async (page) => {
    await page.goto(comparisonPath)
    await page.locator('.map-scroll canvas').first().waitFor()
    await page.waitForTimeout(3000)
    await slowDown(page, CPU_SLOWDOWN)
    const frames = await measureFrames(browser, page, async () => void (await page.evaluate(SCROLL)))
    const nodes = await page.evaluate<number>(`document.querySelectorAll('*').length`)
    const updates: number[] = []
    for (let round = 0; round < UPDATES; round++) {
      const work = await measureFrames(browser, page, async () => {
        await changeTrial(pool, comparison, round)
        await page.waitForTimeout(1500)
      })
      updates.push(Math.max(0, ...work))
    }
    return [
      atMost('map while scrolling, scripting and layout per frame, p95', toP95(frames), 8, milliseconds),
      atMost('page with the map, elements', nodes, 2000, String),
      atMost('live update, longest frame, median', median(updates), 16, milliseconds),
      note('live update, longest frame, largest', milliseconds(Math.max(...updates))),
    ]
  })
}

const toP95 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(0.95 * values.length)] ?? Number.NaN

type LongFileVisit = { interactive: number; mainThread: number; memory: number; more: number }

/** Opens a page several times. `act` returns one more number. */
async function visit(
  context: AppBenchContext,
  path: string,
  selector: string,
  act: (page: Page) => Promise<number>,
): Promise<(field: keyof LongFileVisit) => number> {
  const visits: LongFileVisit[] = []
  for (let round = 0; round < VISITS; round++)
    visits.push(
      await withPage(context, async (page) => {
        await slowDown(page, CPU_SLOWDOWN)
        const { browser, url } = context
        const { time, mainThread } = await measureInteractive(browser, page, `${url}${path}`, selector)
        const memory = await readMemory(context.browser, page)
        return { interactive: time, mainThread, memory, more: await act(page) }
      }),
    )
  return (field) => median(visits.map((each) => each[field]))
}

async function measureTrace(context: AppBenchContext): Promise<MeasureRow[]> {
  const measured = await visit(context, context.trialPath, '.trace li', async (page) => {
    await page.getByText(`${EVENTS.toLocaleString('en')} events`).waitFor({ timeout: 60_000 })
    const started = performance.now()
    await page.getByRole('button', { name: /^Errors/ }).click()
    await page.getByText('2,500 events').waitFor()
    return performance.now() - started
  })
  return [
    atMost('trajectory, main thread until interactive', measured('mainThread') / 1000, 1, seconds),
    note('trajectory, time until interactive', seconds(measured('interactive') / 1000)),
    atMost('trajectory, memory', measured('memory'), 300e6, megabytes),
    note('trajectory, time to filter it by errors', milliseconds(measured('more'))),
  ]
}

async function measureLog(context: AppBenchContext): Promise<MeasureRow[]> {
  const measured = await visit(context, `${context.trialPath}?tab=logs`, '.line', async (page) => {
    await page.getByRole('button', { name: 'Load the rest' }).click({ timeout: 60_000 })
    await page.getByText(/lines, the first/).waitFor({ state: 'hidden', timeout: 120_000 })
    return readMemory(context.browser, page)
  })
  return [
    atMost('log, main thread until interactive', measured('mainThread') / 1000, 1, seconds),
    note('log, time until interactive', seconds(measured('interactive') / 1000)),
    atMost('log, memory with the first lines', measured('memory'), 300e6, megabytes),
    atMost('log, memory with all lines', measured('more'), 300e6, megabytes),
  ]
}
