import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../support/app.ts'
import { startBrowser } from '../support/browser.ts'
import { publishTwoSettings } from '../support/releases.ts'

let app: TestApp
let browser: Browser

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local' })
  browser = await startBrowser()
})
afterAll(async () => {
  await browser?.close()
  await app?.[Symbol.asyncDispose]()
})

const HOSTILE: [name: string, text: string][] = [
  ['a script', '<script>window.broken = 1</script><img src=x onerror="window.broken = 1">'],
  ['attributes', `"' onmouseover=window.broken=1 autofocus onfocus=window.broken=1 x='`],
  ['the end of the data for search engines', '</script><script>window.broken = 1</script>'],
  ['controls of the writing direction', '\u202egnp.exe\u2066\u200b\u001b[31mred\u001b]8;;https://evil.example\u0007'],
  ['a name of 10,000 characters', 'x'.repeat(10_000)],
  ['a name of 10,000 wide characters', '漢'.repeat(10_000)],
  ['emoji and writing from right to left', `${'👩‍👩‍👧‍👦'.repeat(60)} مرحبا بالعالم שלום`],
  ['combining marks', `a${'\u0301'.repeat(5000)}`],
]

/** Strings that a publisher cannot choose, or that the contract restricts to a pattern. */
const FIXED = new Set(['releaseId', 'releasedAt', 'fullName', 'login', 'kind', 'at', 'from', 'to', 'roles'])

function poison(value: unknown, text: string, field = ''): unknown {
  if (typeof value === 'string') return FIXED.has(field) ? value : text
  if (Array.isArray(value)) return value.map((each) => poison(each, text, field))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, poison(each, text, key)]))
}

const poisonJson = (json: string, text: string): string => JSON.stringify(poison(JSON.parse(json), text))

/** Publishes two releases and replaces every text in them that a publisher, a model or a harness could have chosen. */
async function publishHostile(text: string) {
  const lab = await publishTwoSettings(app)
  await lab.ran({ id: 'acme/third|mini|low', cells: 'pppppp', label: 'Third' })
  const { body: newer } = await lab.publishAll()
  await lab.withdraw(lab.release.releaseId, text.slice(0, 500))
  const { pool } = app.database
  const lines = await pool.query('select line, card from result_lines where release_id = $1', [newer.releaseId])
  await pool.query('update result_lines set line = $1, card = $2, search = $3 where release_id = $4', [
    ...[poisonJson(lines.rows[0].line, text), poisonJson(lines.rows[0].card, text)],
    ...[`${text}\nlocal`.toLowerCase(), newer.releaseId],
  ])
  for (const id of [newer.releaseId, lab.release.releaseId]) {
    const { rows } = await pool.query('select document from releases where id = $1', [id])
    await pool.query('update releases set document = $1 where id = $2', [poisonJson(rows[0].document, text), id])
  }
  const path = `/results/${lab.place.owner}/${lab.place.name}`
  return ['/', path, `${path}/compare`, `${path}/releases/${lab.release.releaseId}`, '/publishers/local']
}

const isIntact = (page: Page): Promise<unknown> =>
  page.evaluate(`({
    broken: window.broken === undefined ? 0 : 1,
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    tall: document.documentElement.scrollHeight > 20000,
    landmarks: document.querySelectorAll('body > main').length + document.querySelectorAll('body > footer').length,
  })`)

test.each(HOSTILE)('%s in every field executes nothing and does not break the layout of a phone', async (_, text) => {
  const paths = await publishHostile(text)
  const context = await browser.newContext({ baseURL: app.url, viewport: { width: 360, height: 700 } })
  try {
    const page = await context.newPage()
    for (const path of paths) {
      const response = await page.goto(path)
      expect(response?.status(), path).toBe(200)
      expect(await isIntact(page), path).toEqual({ broken: 0, wide: false, tall: false, landmarks: 2 })
    }
    const query = encodeURIComponent(text.slice(0, 100).toWellFormed())
    for (const path of [`/?q=${query}`, `/?harness=${query}`, `/models/${query}`, `/settings/${query}`]) {
      await page.goto(path)
      expect(await isIntact(page), path).toEqual({ broken: 0, wide: false, tall: false, landmarks: 2 })
    }
  } finally {
    await context.close()
  }
})
