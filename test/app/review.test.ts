import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { smallTask } from '../support/archives.ts'
import { openImportLab } from '../support/batches.ts'
import { findViolations, openBrowser, openPage, savePictures, signIn } from '../support/browser.ts'

const HOSTILE = '<img src=x onerror="window.owned=1">'
const PATCH = '--- a/money.py\n+++ b/money.py\n@@ -1 +1 @@\n-half up\n+half even\n'

/** Only one instruction is hostile, so that pictures show an ordinary one. */
const instructionOf = (id: string): string =>
  `Round halves to even in ${id}. ${id === 'tax-zones' ? HOSTILE : 'Amounts keep two decimals.'}\n`

let app: TestApp
let browser: Browser
let lab: Awaited<ReturnType<typeof openImportLab>>
let runId: string

beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), openBrowser()])
  lab = await openImportLab(app)
  const folders = ['ledger-export', 'parse-iban', 'retry-on-deadlock', 'round-half-even', 'tax-zones'].map((id) => [
    id,
    smallTask({ 'instruction.md': instructionOf(id), 'solution/fix.patch': PATCH }),
  ])
  runId = (await lab.imported(Object.fromEntries(folders))).runId
}, 60_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

const reviewPath = () => `/app/repos/${lab.place.owner}/${lab.place.name}/batches/${runId}/review`
const decisionOf = async (taskId: string) => (await lab.task(runId, taskId)).decision

describe('the review queue', () => {
  test('approves, declines and edits with keys only', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey, reviewPath())
    await page.getByText('Round halves to even in ledger-export.').waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'review')

    await page.keyboard.press('a')
    await page.getByText('Round halves to even in parse-iban.').waitFor()
    expect(await decisionOf('ledger-export')).toBe('approved')

    await page.keyboard.press('r')
    await page.getByLabel('Reason').pressSequentially('Too easy.')
    await page.keyboard.press('Enter')
    await page.getByText('Round halves to even in retry-on-deadlock.').waitFor()
    expect(await lab.task(runId, 'parse-iban')).toMatchObject({ decision: 'declined', note: 'Too easy.' })

    await page.keyboard.press('e')
    await page.getByLabel('Instruction', { exact: true }).fill('Retry twice.\n')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.locator('.instruction', { hasText: 'Retry twice.' }).waitFor()
    await lab.work()
    expect(await lab.task(runId, 'retry-on-deadlock')).toMatchObject({ state: 'ready', decision: null })

    await page.keyboard.press('j')
    await page.getByText('Round halves to even in round-half-even.').waitFor()
    await page.keyboard.press('k')
    await page.locator('.instruction', { hasText: 'Retry twice.' }).waitFor()
    await page.keyboard.press('?')
    await page.getByText('previous task').waitFor()
    expect(opened.errors).toEqual([])
  })

  test('shows the hidden parts of a task, and fits on a phone', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey, `${reviewPath()}?task=round-half-even`)
    await page.getByRole('button', { name: /^Solution/ }).click()
    await page.locator('.line.added', { hasText: 'half even' }).waitFor()
    await page.getByRole('button', { name: /^Hidden tests/ }).click()
    await page.getByText('/logs/verifier/reward.txt').waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
  })

  test('a read key sees the tasks but no control that decides', async () => {
    const { body } = await app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, body.key, `${reviewPath()}?task=tax-zones`)
    await page.getByText('Round halves to even in tax-zones. <img').waitFor()
    expect(await page.evaluate('window.owned')).toBeUndefined()
    await page.keyboard.press('a')
    expect(await page.getByRole('button', { name: /Approve|Decline|Edit/ }).count()).toBe(0)
    expect(await decisionOf('tax-zones')).toBeNull()
  })

  test('all tasks without warnings are approved at once', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey, reviewPath())
    const button = page.getByRole('button', { name: /^Approve \d without warnings/ })
    await button.click()
    await button.waitFor({ state: 'detached' })
    expect(await decisionOf('tax-zones')).toBe('approved')
    expect(await decisionOf('parse-iban')).toBe('declined')
  })
})

describe('repositories', () => {
  test('lists them, connects one and shows its batches', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey, '/app/repos')
    await page.getByRole('link', { name: `${lab.place.owner}/${lab.place.name}` }).waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'repositories')
    await page.getByLabel('Owner and name').fill('acme/billing')
    await page.getByLabel('Git address, unless it is on GitHub').fill('https://git.example.org/billing.git')
    await page.keyboard.press('Enter')
    await page.getByText('Batches of tasks appear here').waitFor()
    await page.goto(`/app/repos/${lab.place.owner}/${lab.place.name}`)
    await page.getByRole('link', { name: /^Import of/ }).waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'repository')
    await page.getByRole('link', { name: /^Import of/ }).click()
    await page.getByText('Evidence').waitFor()
    expect(opened.errors).toEqual([])
  })

  test('tasks to review are found from the overview, and a repository from the palette', async () => {
    const folders = { 'new-task': smallTask({ 'instruction.md': 'Round once more.\n' }) }
    await lab.imported(folders)
    await using opened = await openPage(browser, app.url)
    const { page, errors } = opened
    await signIn(page, app.adminKey)
    await page.getByRole('link', { name: '1 task to review' }).click()
    await page.getByText('Round once more.').waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Page or command' }).fill(`publish ${lab.place.name}`)
    await page.getByRole('option', { name: `Publish ${lab.place.owner}/${lab.place.name}` }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Publish', level: 1 }).waitFor()
    expect(errors).toEqual([])
  })
})
