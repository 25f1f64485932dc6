import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { testApp } from '../support/app.ts'
import { startBrowser } from '../support/browser.ts'
import { DEMO_OWNERS, publishDemo } from '../support/site.ts'

/** Folder for pictures of every page. Not set in ordinary runs: pictures are taken on request. */
const FOLDER = process.env.ASSAY_SCREENSHOTS

test.skipIf(!FOLDER)('takes a picture of every page in both themes', async () => {
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
    ['methodology', '/methodology'],
    ['attacks', '/methodology/attacks'],
    ['problem', '/results/pallets/nothing'],
  ]
  try {
    for (const [name, path, base = app.url] of pages)
      for (const colorScheme of ['light', 'dark'] as const)
        for (const [suffix, width] of [
          ['', 1280],
          ['-phone', 360],
          ['-tablet', 768],
        ] as const) {
          const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } })
          const page = await context.newPage()
          await page.goto(`${base}${path}`, { waitUntil: 'networkidle' })
          const height = await page.evaluate<number>('document.documentElement.scrollHeight')
          // The window is as high as the picture: Chromium leaves parts of a taller picture unpainted.
          await page.setViewportSize({ width, height: Math.min(height, 2400) })
          await page.screenshot({ path: join(FOLDER ?? '', `${name}${suffix}-${colorScheme}.png`) })
          await context.close()
        }
    const image = await fetch(`${app.url}${flask.path}/image.png`)
    const { writeFileSync } = await import('node:fs')
    writeFileSync(join(FOLDER ?? '', 'share-image.png'), Buffer.from(await image.arrayBuffer()))
  } finally {
    await browser.close()
  }
})
