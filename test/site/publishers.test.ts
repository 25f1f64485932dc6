import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { putEndorsement, verifyWorkspace } from '../../src/releases/schema.ts'
import { OPERATOR_KEY, type TestApp, testApp } from '../support/app.ts'
import { findViolations, startBrowser } from '../support/browser.ts'
import { startCodeHost } from '../support/code-host.ts'
import { openReleaseLab, openSecondReleaseLab } from '../support/releases.ts'

const PLACE = { owner: 'octo', name: 'compiler' }
const PATH = '/results/octo/compiler'

let host: Awaited<ReturnType<typeof startCodeHost>>
let app: TestApp
let browser: Browser

/** Two publishers of one repository: the owner endorses the first, and has published nothing. */
beforeAll(async () => {
  host = await startCodeHost()
  host.add('octo/compiler')
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
  browser = await startBrowser()
  const { digests } = await openReleaseLab(app)
  const publish = async (login: string, path: string, id: string) => {
    const lab = await openSecondReleaseLab(app, { login, place: PLACE, digests, path }, [{ id, cells: 'ppfpff' }])
    await lab.publishAll()
  }
  await publish('endorsed-lab', 'environment/main.rs', 'acme/large|mini|high')
  await publish('other-lab', 'environment/main.go', 'beta/small|mini|low')
  const { key } = await openSecondReleaseLab(app, { login: 'octo', place: PLACE, digests }, [])
  await app.call(verifyWorkspace, { params: { login: 'octo' }, key: OPERATOR_KEY })
  await app.call(putEndorsement, { params: { ...PLACE, org: 'octo', publisher: 'endorsed-lab' }, key })
})
afterAll(async () => {
  await browser?.close()
  await app?.[Symbol.asyncDispose]()
  await host?.[Symbol.asyncDispose]()
})

test('a reader tells two publishers of a repository apart, and filters the list by language', async () => {
  const page = await browser.newPage({ baseURL: app.url, viewport: { width: 1280, height: 900 } })
  await page.goto('/')
  const publishers = () => page.locator('.result .small a').allInnerTexts()
  expect(await publishers()).toEqual(['other-lab', 'endorsed-lab'])
  expect(await page.locator('.result', { hasText: 'endorsed-lab' }).locator('.chip').innerText()).toBe('endorsed')
  expect(await page.locator('.result', { hasText: 'other-lab' }).locator('.chip').count()).toBe(0)

  await page.getByLabel('Language').selectOption({ label: 'Go' })
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.waitForURL(/language=go/)
  expect(await publishers()).toEqual(['other-lab'])
  await page.getByLabel('Language').selectOption({ label: 'Rust' })
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.waitForURL(/language=rust/)
  expect(await publishers()).toEqual(['endorsed-lab'])
  await page.goBack()
  expect(await publishers()).toEqual(['other-lab'])
  await page.getByRole('link', { name: 'octo/compiler' }).click()
  await page.waitForURL(`**${PATH}?publisher=other-lab`)
  expect(await page.locator('.byline').innerText()).toContain('not endorsed by the owner')
  expect(await page.locator('tbody .model').allInnerTexts()).toEqual(['beta/small'])
  expect(await findViolations(page)).toEqual([])

  const lines = page.getByRole('navigation', { name: 'Publishers' }).getByRole('listitem')
  expect(await lines.count()).toBe(2)
  expect(await lines.first().innerText()).toMatch(/^endorsed-lab endorsed · /)
  await lines.first().getByRole('link').click()
  await page.waitForURL(`**${PATH}`)
  expect(await page.locator('.byline').innerText()).toMatch(/by endorsed-lab\s+endorsed by the owner/i)
  expect(await page.locator('tbody .model').allInnerTexts()).toEqual(['acme/large'])
  await page.close()
})
