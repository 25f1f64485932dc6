import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { test } from 'vitest'
import { testApp } from '../support/app.ts'
import { startBrowser } from '../support/browser.ts'
import { DEMO_OWNERS, publishDemo } from '../support/site.ts'

/** Folder for pictures of every page. Not set in ordinary runs: pictures are taken on request. */
const FOLDER = process.env.ASSAY_SCREENSHOTS
const HEIGHT_MAX = 1500
const PHONES = ['results', 'repository', 'compare']

test.skipIf(!FOLDER)(
  'takes a picture of every page in both themes',
  async () => {
    await using app = await testApp({ ASSAY_PUBLIC_OWNERS: DEMO_OWNERS })
    await using empty = await testApp()
    const { flask, releases } = await publishDemo(app)
    const { first, second, withdrawn } = releases
    const browser = await startBrowser()
    mkdirSync(FOLDER ?? '', { recursive: true })
    const pages: [name: string, path: string, base?: string][] = [
      ['results', '/'],
      ['results-empty', '/', empty.url],
      ['repository', flask.path],
      ['release-withdrawn', `${flask.path}/releases/${withdrawn.releaseId}`],
      ['compare', `${flask.path}/compare?from=${first.releaseId}&to=${second.releaseId}`],
      ['setting', '/settings/anthropic/claude-sonnet-5%7Copencode%7Chigh'],
      ['model', '/models/anthropic/claude-sonnet-5'],
      ['harness', '/harnesses/codex'],
      ['publisher', '/publishers/pallets'],
      ['guide', '/guide'],
      ['methodology', '/methodology'],
      ['attacks', '/methodology/attacks'],
      ['problem', '/results/pallets/nothing'],
    ]
    const wide = pages.map((page) => ({ page, width: 1080, suffix: '' }))
    const phone = pages
      .filter(([name]) => PHONES.includes(name))
      .map((page) => ({ page, width: 360, suffix: '-phone' }))
    try {
      for (const { page, width, suffix } of [...wide, ...phone])
        for (const theme of ['light', 'dark'] as const) {
          const [name, path, base = app.url] = page
          await takePicture(browser, { url: base + path, width, theme, file: `${name}${suffix}-${theme}.png` })
        }
      const image = await fetch(`${app.url}${flask.path}/image.png`)
      writeFileSync(join(FOLDER ?? '', 'share-image.png'), Buffer.from(await image.arrayBuffer()))
    } finally {
      await browser.close()
    }
  },
  600_000,
)

type PictureOptions = { url: string; width: number; theme: 'light' | 'dark'; file: string }

async function takePicture(browser: Browser, { url, width, theme, file }: PictureOptions): Promise<void> {
  const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 600 } })
  const page = await context.newPage()
  await page.goto(url)
  await page.evaluate('document.fonts.ready')
  const height = await page.evaluate<number>('document.documentElement.scrollHeight')
  // The window is as high as the picture: Chromium leaves parts of a taller picture unpainted.
  await page.setViewportSize({ width, height: Math.min(height, HEIGHT_MAX) })
  await page.screenshot({ path: join(FOLDER ?? '', file) })
  await context.close()
}
