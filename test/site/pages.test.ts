import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, startBrowser } from '../support/browser.ts'
import { DEMO_OWNERS, publishDemo } from '../support/site.ts'

const WIDTHS = [360, 768, 1440]
/** The rules take long on pages with large tables. */
const AXE_TIMEOUT_MS = 300_000

let app: TestApp
let browser: Browser
let demo: Awaited<ReturnType<typeof publishDemo>>
/** Paths of one page of each kind. */
let pages: string[]

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: DEMO_OWNERS })
  browser = await startBrowser()
  demo = await publishDemo(app)
  const { first, second, withdrawn } = demo.releases
  const { path } = demo.flask
  pages = [
    '/',
    '/?q=nothing-like-this',
    path,
    `${path}?prices=today&sort=cost`,
    `${path}/releases/${second.releaseId}`,
    `${path}/releases/${withdrawn.releaseId}`,
    `${path}/compare?from=${first.releaseId}&to=${second.releaseId}`,
    '/settings/anthropic/claude-sonnet-5%7Cclaude-code%7Chigh',
    '/models/anthropic/claude-sonnet-5',
    '/harnesses/claude-code',
    '/publishers/pallets',
    '/guide',
    '/guide/comparisons',
    '/methodology',
    '/methodology/attacks',
    '/results/nobody/nothing',
  ]
})
afterAll(async () => {
  await browser?.close()
  await app?.[Symbol.asyncDispose]()
})

/** Opens a page in a new context and closes the context afterwards. */
async function visit<T>(
  options: BrowserContextOptions,
  act: (page: Page, context: BrowserContext) => Promise<T>,
): Promise<T> {
  const context = await browser.newContext({ baseURL: app.url, ...options })
  try {
    return await act(await context.newPage(), context)
  } finally {
    await context.close()
  }
}

/** Returns the elements that reach beyond the right edge of the window, unless they are inside a scrolling region. */
const findOverflow = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
    const width = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= width) return []
    return [...document.body.querySelectorAll('*')]
      .filter((each) => each.getBoundingClientRect().right > width + 0.5 && !each.closest('.scroll'))
      .map((each) => each.tagName + ' ' + each.className + ' ' + each.textContent.slice(0, 40))
      .slice(0, 3)
  })()`)

describe('a reader', () => {
  test('finds a repository, sorts, filters, goes back, follows the permalink, compares and downloads', async () => {
    await visit({ viewport: { width: 1280, height: 900 }, acceptDownloads: true }, async (page) => {
      await page.goto('/')
      expect(await page.getByRole('searchbox').count()).toBe(1)
      await page.getByRole('searchbox', { name: 'Find a repository, publisher or model' }).fill('flask')
      await page.keyboard.press('Enter')
      await page.waitForURL(/\?q=flask/)
      await page.getByRole('link', { name: 'pallets/flask' }).click()
      await page.waitForURL(`**${demo.flask.path}`)
      expect(await page.locator('.answer').innerText()).toMatch(
        /^On flask, use Claude Sonnet 5 with Claude Code at high reasoning/,
      )

      expect(await page.locator('.chart.wide .ring').count()).toBe(1)
      expect(await page.locator('tbody tr', { hasText: 'use this' }).locator('.model').allInnerTexts()).toEqual([
        'Claude Sonnet 5',
      ])

      const firstModel = () => page.locator('tbody tr .model').first().innerText()
      await page.getByRole('link', { name: 'Per task' }).click()
      expect(new URL(page.url()).search).toBe('?sort=cost')
      expect(await firstModel()).toBe('Gemini 4 Flash')
      await page.goBack()
      expect(new URL(page.url()).search).toBe('')
      expect(await firstModel()).not.toBe('Gemini 4 Flash')

      await page.getByLabel('Harness').selectOption('codex')
      await page.getByRole('button', { name: 'Filter' }).click()
      await page.waitForURL(/harness=codex/)
      expect(await page.locator('tbody tr .model').allInnerTexts()).toEqual(['GPT-6 Codex', 'GPT-6 mini'])
      await page.goBack()

      await page.getByRole('link', { name: 'Permalink' }).click()
      await page.waitForURL(`**/releases/${demo.releases.second.releaseId}`)
      expect(await page.locator('.answer').innerText()).toMatch(
        /^On flask, use Claude Sonnet 5 with Claude Code at high reasoning/,
      )
      expect(await page.locator('.pick .role').first().innerText()).toMatch(/^use this/i)
      const reasons = (await page.locator('.pick p:last-child').allInnerTexts()).map((text) =>
        text.replaceAll('\u00a0', ' '),
      )
      expect(reasons).toEqual([
        '2 points below the best, not measurably worse, at 48 % of its cost.',
        '2 points more for 2.1 times the cost; not measurably better.',
        '42 points below the best, at 6 % of its cost.',
      ])
      await page.goto(demo.flask.path)
      await page
        .getByRole('link', { name: /^Compare/ })
        .first()
        .click()
      await page.waitForURL(/\/compare\?from=/)
      expect(await page.locator('.answer').innerText()).toMatch(/^2 new settings\. The recommendation changed from /)
    })
  })

  test('downloads every format', async () => {
    await visit({}, async (page) => {
      await page.goto(demo.flask.path)
      const links = await page
        .locator('.files a')
        .evaluateAll((all) => all.map((each) => each.getAttribute('href') ?? ''))
      expect(links).toHaveLength(6)
      const types = await Promise.all(
        links.map(async (link) => (await page.request.get(link)).headers()['content-type']?.split(';')[0]),
      )
      expect(types.sort()).toEqual([
        'application/atom+xml',
        'application/json',
        'image/svg+xml',
        'image/svg+xml',
        'text/csv',
        'text/html',
      ])
    })
  })

  test('copies a text and changes the theme, which stays', async () => {
    await visit({ permissions: ['clipboard-read', 'clipboard-write'], colorScheme: 'light' }, async (page) => {
      await page.goto(demo.flask.path)
      await page.getByText('Cite', { exact: true }).click()
      await page.getByRole('button', { name: 'Copy Citation' }).click()
      await page.getByText('Copied').waitFor()
      expect(await page.evaluate('navigator.clipboard.readText()')).toContain('Coding agents on pallets/flask')
      const background = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor')
      const light = await background()
      await page.getByRole('button', { name: /Theme/ }).click()
      await page.getByRole('button', { name: /Theme/ }).click()
      await page.reload()
      expect(await background()).not.toBe(light)
    })
  })
})

describe('every page', () => {
  test('fits the screen of a phone, a tablet and a computer', async () => {
    await visit({}, async (page) => {
      for (const path of pages)
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 800 })
          await page.goto(path)
          expect(await findOverflow(page), `${path} at ${width}`).toEqual([])
        }
    })
  })

  test('is complete without JavaScript and loads nothing from elsewhere', async () => {
    await visit({}, async (scripted) => {
      await visit({ javaScriptEnabled: false }, async (plain) => {
        const foreign: string[] = []
        plain.on('request', (request) => {
          if (!request.url().startsWith(app.url)) foreign.push(request.url())
        })
        for (const path of pages) {
          await scripted.goto(path)
          await plain.goto(path)
          expect(toComparable(await plain.locator('main').innerText()), path).toBe(
            toComparable(await scripted.locator('main').innerText()),
          )
        }
        expect(foreign).toEqual([])
      })
    })
  })

  test(
    'has no accessibility violation in either theme',
    async () => {
      await visit({ viewport: { width: 1280, height: 900 } }, async (page) => {
        for (const path of pages) {
          await page.goto(path)
          expect(await findViolations(page), path).toEqual([])
        }
      })
    },
    AXE_TIMEOUT_MS,
  )

  test('executes no script but the one of the service, which is small', async () => {
    await visit({}, async (page) => {
      const errors: string[] = []
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text())
      })
      page.on('pageerror', (error) => errors.push(error.message))
      for (const path of pages.filter((each) => !each.includes('nobody'))) await page.goto(path)
      expect(errors).toEqual([])
      expect(gzipSync((await app.fetch('/assets/site.js')).text).byteLength).toBeLessThan(15_000)
    })
  })
})

/** Removes what differs between two visits: buttons to copy, and the id of the request. */
const toComparable = (text: string): string => text.replaceAll(/^(Copy|Request ).*\n?/gm, '')

test('a page of another origin reads the public API: with a preflight, and conditionally', async () => {
  const server = createServer((_, response) =>
    response.setHeader('content-type', 'text/html').end('<title>Other</title>'),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await visit({}, async (page) => {
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
      const statuses = await page.evaluate(async (url) => {
        const first = await fetch(url)
        // A header that a simple request must not have, so that the browser asks first.
        const asked = await fetch(url, { headers: { 'x-reason': 'test' }, cache: 'no-store' })
        const etag = first.headers.get('etag') ?? ''
        const again = await fetch(url, { headers: { 'if-none-match': etag }, cache: 'no-store' })
        return [first.status, asked.status, again.status, etag.length > 10]
      }, `${app.url}/api/public${demo.flask.path}`)
      expect(statuses).toEqual([200, 200, 304, true])
    })
  } finally {
    server.close()
  }
})
