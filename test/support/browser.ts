import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { findChromium } from './parts.ts'

const BUILDER = new URL('../../scripts/build-app.ts', import.meta.url).pathname
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** A browser and the workspace app, built if it was stale. */
export async function openBrowser(): Promise<Browser> {
  const { status, stderr } = spawnSync(process.execPath, [BUILDER, '--if-stale'], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`The app could not be built: ${stderr}`)
  return startBrowser()
}

/** Starts the system's Chromium without a window. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findChromium()
  if (!executablePath) throw new Error('Chromium is not installed.')
  return chromium.launch({ executablePath, args: ['--no-sandbox'] })
}

const ACTION_MS = 15_000

type PageOptions = { width?: number; height?: number; theme?: 'light' | 'dark' }

/** A page with its own cookies. Collects errors of scripts and refusals of the content security policy. */
export async function openPage(browser: Browser, baseURL: string, options: PageOptions = {}) {
  const { width = 1440, height = 900, theme = 'light' } = options
  const context = await browser.newContext({ baseURL, viewport: { width, height }, colorScheme: theme })
  const page = await context.newPage()
  page.setDefaultTimeout(ACTION_MS)
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) errors.push(message.text())
  })
  return { page, context, errors, [Symbol.asyncDispose]: () => context.close() }
}

/** Signs in through the form and waits for the page behind it. */
export async function signIn(page: Page, key: string, path = '/app'): Promise<void> {
  await page.goto(path)
  await page.getByLabel('Workspace key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('.shell').waitFor()
}

/** Returns a promise for the first event of a comparison that the page receives. It sees every change after that. */
export async function watchFirstEvent(page: Page): Promise<{ received: Promise<void> }> {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  const streams = new Set<string>()
  const received = new Promise<void>((resolve) => {
    session.on('Network.responseReceived', ({ requestId, response }) => {
      if (response.url.endsWith('/events')) streams.add(requestId)
    })
    session.on('Network.dataReceived', ({ requestId }) => {
      if (streams.has(requestId)) resolve()
    })
  })
  return { received }
}

/** Opens a page of the workspace app, signed in with the key. */
export async function openSignedIn(browser: Browser, url: string, { path, key }: { path: string; key: string }) {
  const opened = await openPage(browser, url)
  await signIn(opened.page, key, path)
  return opened
}

/** Saves a page in both themes for the documentation if the variable ASSAY_PICTURES names a folder. */
export async function savePictures(page: Page, name: string): Promise<void> {
  const folder = process.env.ASSAY_PICTURES
  if (!folder) return
  // Parts of a live page that are out of view are rendered when they come into view.
  await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  await page.evaluate('scrollTo(0, 0)')
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    await page.screenshot({ path: join(folder, `${name}-${theme}.png`), fullPage: true, clip: await toClip(page) })
  }
}

const PICTURE_HEIGHT_MAX = 1700

/** Returns the part of a page that a picture shows: all of it, unless it is very long. */
async function toClip(page: Page) {
  const [width, height] = await page.evaluate<[number, number]>(
    '[document.documentElement.clientWidth, document.documentElement.scrollHeight]',
  )
  return { x: 0, y: 0, width, height: Math.min(height, PICTURE_HEIGHT_MAX) }
}

type AxeResult = { violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }

/** Lists the violations of accessibility rules in both themes. */
export async function findViolations(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    const run = `${axeSource};axe.run(document, { resultTypes: ['violations'] })`
    const { violations } = await evaluate<AxeResult>(page.context(), page, run)
    for (const { id, nodes } of violations)
      found.push(...nodes.map(({ html, failureSummary }) => `${theme}: ${id}: ${html}: ${failureSummary}`))
  }
  return found
}

/** Evaluates a script through the debugger, which the content security policy of the page does not restrict. */
async function evaluate<T>(context: BrowserContext, page: Page, expression: string): Promise<T> {
  const session = await context.newCDPSession(page)
  try {
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })
    if (exceptionDetails) throw new Error(exceptionDetails.text)
    return result.value
  } finally {
    await session.detach()
  }
}
