import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey } from '../../src/workspaces/schema.ts'
import { OPERATOR_KEY } from '../support/app.ts'
import { findViolations, openBrowser, openSignedIn, savePictures } from '../support/browser.ts'
import { openModelComparisonLab } from '../support/model-comparing.ts'

const USAGE = { input: 1000, output: 100 }
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: USAGE }] }] }

let lab: Awaited<ReturnType<typeof openModelComparisonLab>>
let browser: Browser
beforeAll(async () => {
  const work: Parameters<typeof openModelComparisonLab>[0] = async (ask) => {
    await ask()
    return { state: 'passed', reward: 1 }
  }
  ;[lab, browser] = await Promise.all([openModelComparisonLab(work, script), openBrowser()])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await lab[Symbol.asyncDispose]()
})

const open = (path: string, key = lab.app.adminKey) => openSignedIn(browser, lab.app.url, { path, key })

const HOSTILE = '<img src=x onerror="window.harmed=1">\u202e'

const insertWorker = (host: string) =>
  lab.app.database.pool.query(`insert into workers (id, host, process_id) values (gen_random_uuid(), $1, 4711)`, [host])

const create = async () => {
  await lab.offer()
  const levels = ['low', 'high'].map((reasoningLevel) => ({ ...lab.models[0], reasoningLevel }))
  return lab.create({ models: levels })
}

describe('spend', () => {
  test('is shown by day, provider and setting, and on the overview', async () => {
    await using opened = await open('/app/settings/spend')
    const { page, errors } = opened
    await page.getByText('Costs of calls to models appear here').waitFor()
    await create()
    await lab.work()
    await page.reload()
    await page
      .getByRole('region', { name: 'By provider' })
      .getByRole('row', { name: /anthropic \$0\.03/ })
      .waitFor()
    await page
      .getByRole('region', { name: 'By setting' })
      .getByRole('row', { name: /claude-code low 5 \$0\.015/ })
      .waitFor()
    await page.getByLabel('Last').selectOption('7 days')
    await page.getByRole('region', { name: 'By day' }).getByRole('row').nth(1).waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'spend')
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    await page.goto('/app')
    await page.getByRole('heading', { name: 'spent in the last 30 days' }).waitFor()
    await page.getByRole('link', { name: 'By day, provider and setting' }).click()
    await page.getByRole('heading', { name: 'Spend', level: 1 }).waitFor()
    expect(errors).toEqual([])
  })
})

describe('operations', () => {
  test('shows checks, the queue with its limit, sandboxes, and whether bodies are recorded', async () => {
    await create()
    await using opened = await open('/app/operations')
    const { page, errors } = opened
    await page
      .getByRole('region', { name: 'Checks' })
      .getByRole('row', { name: /database ✓ passes/ })
      .waitFor()
    await page
      .getByRole('region', { name: 'Queue' })
      .getByRole('row', { name: /assay\/quick/ })
      .waitFor()
    await page
      .getByRole('region', { name: 'Sandboxes' })
      .getByRole('row', { name: /✓ available/ })
      .waitFor()
    await page.getByLabel('Operator key').fill('a-wrong-key-of-nobody-0123456789')
    await page.getByRole('button', { name: 'Show figures' }).click()
    await page.getByRole('alert').waitFor()
    await insertWorker('worker-1')
    await page.getByLabel('Operator key').fill(OPERATOR_KEY)
    await page.getByRole('button', { name: 'Show figures' }).click()
    await page
      .getByRole('region', { name: 'Figures of the process' })
      .getByRole('row', { name: /Requests answered \d/ })
      .waitFor()
    await page
      .getByRole('region', { name: 'Workers' })
      .getByRole('row', { name: /worker-1 4711 0/ })
      .waitFor()
    await page.getByText(/^Disk of the data folder: .* are free\.$/).waitFor()
    await page
      .getByRole('region', { name: 'Checks of the service' })
      .getByRole('row', { name: /PostgreSQL/ })
      .waitFor()
    await page.getByRole('button', { name: 'Record bodies' }).click()
    await page.getByText('model calls are recorded').waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'operations')
    await insertWorker(HOSTILE)
    await page.getByRole('button', { name: 'Show figures' }).click()
    await page.getByText('<img src=x onerror="window.harmed=1">[U+202E]').waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(errors).toEqual([])
    await lab.work()

    const { body } = await lab.app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using reader = await open('/app/operations', body.key)
    await reader.page.getByText('model calls are recorded').waitFor()
    expect(await reader.page.getByRole('button', { name: /recording|Record/ }).count()).toBe(0)
  })
})
