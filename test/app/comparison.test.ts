import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey } from '../../src/workspaces/schema.ts'
import { findViolations, openBrowser, openPage, openSignedIn, signIn, watchFirstEvent } from '../support/browser.ts'
import { openModelComparisonLab } from '../support/model-comparing.ts'

const HOSTILE = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>\u202e'

const HOSTILE_LINE = '<script>window.harmed=1</script>'

type Lab = Awaited<ReturnType<typeof openModelComparisonLab>>
let lab: Lab
let browser: Browser

/** Holds trials back after a number of them has ended. */
let gate: { trials: number; opened: Promise<void> } | undefined

/** High solves everything. Low fails with text that tries to run a script. */
const openLab = () =>
  openModelComparisonLab(async (ask, { model, outputFolder }) => {
    await ask()
    if (gate && gate.trials-- <= 0) await gate.opened
    writeFileSync(join(outputFolder, 'changes.patch'), `--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+${HOSTILE_LINE}\n`)
    if (JSON.stringify(model?.access.wireLevel).includes('high')) return { state: 'passed', reward: 1 }
    return { state: 'failed', reward: 0, class: 'agent_exit', error: HOSTILE }
  })

beforeAll(async () => {
  ;[lab, browser] = await Promise.all([openLab(), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await lab[Symbol.asyncDispose]()
})

const levels = ['low', 'high']
const models = () => levels.map((reasoningLevel) => ({ ...lab.models[0], reasoningLevel }))
/** A worker reports its sandbox again and again. */
const create = async (over: object = {}) => {
  await lab.offer()
  return lab.create({ models: models(), ...over })
}
const pathOf = (id: string) => `/app/benchmarks/assay/quick/comparisons/${id}`
const state = (page: Page, name: string) => page.locator('.title-line .chip', { hasText: name }).waitFor()

const open = (path: string, key = lab.app.adminKey) => openSignedIn(browser, lab.app.url, { path, key })

describe('a comparison', () => {
  test('is found in the list and watched until its answer, without a reload', async () => {
    const { body } = await create()
    await using opened = await open('/app/comparisons')
    const { page, errors } = opened
    await page.getByRole('link', { name: 'assay/quick' }).first().waitFor()
    expect(await findViolations(page)).toEqual([])
    const stream = await watchFirstEvent(page)
    await page.getByRole('link', { name: 'assay/quick' }).first().click()
    await state(page, 'submitting')
    await page.getByText('Trials appear here as they start and end.').waitFor()
    await stream.received

    expect(await page.locator('nav [aria-current="page"]').allInnerTexts()).toEqual(['Comparisons'])

    await lab.work()
    await state(page, 'completed')
    await page.locator('.activity li', { hasText: 'agent crashed' }).first().waitFor()
    const { answer } = await lab.read(body.id)
    await page.getByText(answer.text).waitFor()
    await page
      .getByRole('region', { name: 'Differences' })
      .getByRole('row', { name: /low worse −100/ })
      .waitFor()
    await page.getByRole('region', { name: 'Settings' }).getByRole('row', { name: /high/ }).waitFor()
    expect(await findViolations(page)).toEqual([])
    expect(errors).toEqual([])
  })

  test('shows new results in a section that was out of view as soon as it is scrolled to', async () => {
    const opening = Promise.withResolvers<void>()
    gate = { trials: 3, opened: opening.promise }
    const { body } = await create()
    await using opened = await openPage(browser, lab.app.url, { height: 300 })
    const { page } = opened
    const stream = await watchFirstEvent(page)
    await signIn(page, lab.app.adminKey, pathOf(body.id))
    await stream.received
    const worked = lab.work()
    await page.locator('.progress', { hasText: '3 of 10' }).waitFor()
    const settings = page.getByRole('region', { name: 'Settings' })
    await settings.scrollIntoViewIfNeeded()
    await settings
      .getByRole('row', { name: /[1-3] of [1-3]/ })
      .first()
      .waitFor()
    opening.resolve()
    gate = undefined
    await worked
    await state(page, 'completed')
    // The answer above it may have moved the section out of view again.
    await settings.scrollIntoViewIfNeeded()
    await settings.getByRole('row', { name: /5 of 5/ }).waitFor()
  })

  test('shows how the trial of the selected cell ended, without a reload', async () => {
    const opening = Promise.withResolvers<void>()
    gate = { trials: 0, opened: opening.promise }
    const { body } = await create()
    await using opened = await open(pathOf(body.id))
    const { page } = opened
    const worked = lab.work()
    await page.locator('.activity li', { hasText: 'started' }).first().waitFor()
    await page.getByRole('application').focus()
    await page.keyboard.press('ArrowRight')
    await page.locator('.cell-card', { hasText: /Attempt 1 (queued|running)/ }).waitFor()
    opening.resolve()
    gate = undefined
    await worked
    await page.locator('.cell-card', { hasText: /Attempt 1 (passed|failed)/ }).waitFor()
  })

  test('its map is read with the keyboard, and text of agents is shown, never executed', async () => {
    const { body } = await create()
    await lab.work()
    await using opened = await open(pathOf(body.id))
    const { page, errors } = opened
    await page.getByRole('application').focus()
    for (const key of ['ArrowRight', 'ArrowDown']) await page.keyboard.press(key)
    await page.locator('.cell-card', { hasText: 'Attempt 1 failed · Agent crashed' }).waitFor()
    await page.locator('.cell-card', { hasText: '<script>' }).waitFor()
    await page.locator('.signatures', { hasText: '<img' }).waitFor()
    expect(await findViolations(page)).toEqual([])

    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: /low.*failed.*<img/ }).waitFor()
    await page.getByRole('button', { name: /Show the changes of .*high/ }).click()
    await page.locator('.line.added', { hasText: HOSTILE_LINE }).waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()
    expect(await findViolations(page)).toEqual([])
    expect(errors).toEqual([])
  })

  test('shows two of its settings side by side, with both patches of a task', async () => {
    const { body } = await create()
    await lab.work()
    await using opened = await open(pathOf(body.id))
    const { page, errors } = opened
    await page.getByRole('link', { name: 'Compare two settings' }).click()
    await page.getByText(/high solved 100 points more than .*low on \d+ tasks/).waitFor()
    await page.getByRole('button', { name: 'Swap' }).click()
    await page.getByText(/low solved 100 points less than .*high on \d+ tasks/).waitFor()
    await page
      .getByRole('button', { name: /^Patches/ })
      .first()
      .click()
    await page.getByRole('region', { name: 'Patch of B' }).waitFor()
    expect(await findViolations(page)).toEqual([])
    expect(errors).toEqual([])
  })

  test('that is paused by its budget is resumed with a new one, paused on request and resumed again', async () => {
    const { body } = await create({ budgetUsd: 0.000001 })
    await lab.work()
    await using opened = await open(pathOf(body.id))
    const { page } = opened
    await state(page, 'paused')
    await page.getByLabel('budget, USD').fill('5')
    await page.getByRole('button', { name: 'Resume' }).click()
    await state(page, 'running')
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused on request.').first().waitFor()
    await state(page, 'paused')
    await page.getByRole('button', { name: 'Resume' }).click()
    await state(page, 'running')
    await lab.work()
    await state(page, 'completed')
  })

  test('is canceled after a second question', async () => {
    const { body } = await create()
    await using opened = await open(pathOf(body.id))
    const { page } = opened
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Cancel comparison' }).click()
    await state(page, 'canceled')
    expect((await lab.read(body.id)).state).toBe('canceled')
  })

  test('has no control for a key that may only read, and the API refuses the change', async () => {
    const { body } = await create()
    const { body: reader } = await lab.app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using opened = await open(pathOf(body.id), reader.key)
    const { page } = opened
    await state(page, 'submitting')
    await page.getByText('read key').waitFor()
    expect(await page.getByRole('button', { name: /Cancel|Pause|Resume/ }).count()).toBe(0)
    const { csrfToken } = await (await page.request.get('/api/session')).json()
    const path = `/api/orgs/local/benchmarks/assay/quick/evaluations/comparisons/${body.id}/cancel`
    const refused = await page.request.post(path, { headers: { 'x-csrf-token': csrfToken } })
    expect(refused.status()).toBe(403)
  })

  test('fits a phone without sideways scrolling', async () => {
    const { body } = await create()
    await lab.work()
    await using opened = await openPage(browser, lab.app.url, { width: 360, height: 740 })
    await signIn(opened.page, lab.app.adminKey, pathOf(body.id))
    await state(opened.page, 'completed')
    await opened.page.getByRole('region', { name: 'Differences' }).waitFor()
    expect(await opened.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
  })
})

describe('a new comparison', () => {
  test('is quoted while it is put together, started, and watched', async () => {
    await lab.offer()
    await using opened = await open('/app')
    const { page, errors } = opened
    await page.getByRole('link', { name: 'Compare', exact: true }).click()
    await page.getByLabel('Add a model').selectOption('reference')
    await page.getByText('Smallest visible difference').waitFor()
    await page.getByText('assay compare assay/quick --model reference@none=oracle,nop --sandbox local').waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.getByRole('button', { name: 'Start comparison' }).click()
    await state(page, 'submitting')
    await lab.work()
    await state(page, 'completed')
    expect(errors).toEqual([])
  })

  test('shows what is wrong with it beside the button', async () => {
    await lab.offer()
    await using opened = await open('/app/comparisons/new')
    const { page } = opened
    for (const _ of ['twice', 'the same']) await page.getByLabel('Add a model').selectOption('reference')
    await page.getByRole('alert').first().waitFor()
  })
})
