import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addBenchmark } from '../../src/benchmarks/schema.ts'
import { listModels } from '../../src/catalog/schema.ts'
import { createKey } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, openBrowser, openSignedIn, savePictures } from '../support/browser.ts'
import { trustedCertificate } from '../support/loopback-servers.ts'
import { createWebhookDriver, HOST, startReceiver } from '../support/webhooks/receiver.ts'

const HOSTILE = '<img src=x onerror="window.harmed=1">\u202e'

let app: TestApp
let browser: Browser
beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), openBrowser()])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

const open = (path: string, key = app.adminKey) =>
  openSignedIn(browser, app.url, { path: `/app/settings/${path}`, key })

const readerKey = async () => (await app.call(createKey, { body: { name: 'reader', permission: 'read' } })).body.key

describe('models', () => {
  test('a custom model is added, gets new prices and is deleted; the catalog is filtered', async () => {
    await using opened = await open('models')
    const { page, errors } = opened
    await page.getByText('assay models add custom/house').waitFor()
    await page.getByText('assay models catalog').waitFor()
    await page.getByText('Add a model').click()
    await page.getByLabel('Id, after custom/').fill('house')
    await page.getByLabel('Name that its provider knows').fill('house-v2')
    await page.getByLabel('Address').fill('https://models.example.com/v1')
    await page.getByRole('checkbox', { name: 'high', exact: true }).check()
    await page.getByLabel('Label').fill('House model')
    await page.getByLabel('Default reasoning level').selectOption('high')
    await page.getByLabel('Input, USD per million tokens').fill('0.5')
    await page.getByLabel('Output, USD per million tokens').fill('2')
    await page.getByRole('button', { name: 'Add model' }).click()
    await page.getByText('Saved. Store its key').waitFor()
    const own = page.getByRole('region', { name: 'Custom models' })
    const row = own.getByRole('row').filter({ hasText: 'custom/house' })
    await row.filter({ hasText: '$0.50' }).waitFor()
    await app.call(addBenchmark, { body: { reference: 'assay/quick' } })
    await page.reload()
    const catalog = page.getByRole('region', { name: 'Catalog' })
    await catalog.getByRole('row').filter({ hasText: 'custom/house' }).waitFor()
    await savePictures(page, 'models')

    await page.getByRole('button', { name: 'Edit custom/house' }).click()
    await page.getByLabel('Label').fill(`House ${HOSTILE}`)
    await page.getByLabel('Output, USD per million tokens').fill('3')
    await page.getByRole('button', { name: 'Save' }).click()
    await row.filter({ hasText: '$3.00' }).filter({ hasText: 'House <img' }).waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()

    await page.getByLabel('Filter').fill('sonnet')
    await catalog.getByRole('row').filter({ hasText: 'custom/house' }).waitFor({ state: 'detached' })
    expect(await findViolations(page)).toEqual([])
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    await page.getByRole('button', { name: 'Delete custom/house' }).click()
    await page.getByRole('button', { name: 'Confirm: Delete custom/house' }).click()
    await page.getByText('assay models add custom/').waitFor()
    expect(errors).toEqual([])
  })

  test('a model in a cloud is added, and keeps its cloud when its prices change', async () => {
    await using opened = await open('models')
    const { page } = opened
    await page.getByText('Add a model').click()
    await page.getByLabel('Id, after custom/').fill('azure')
    await page.getByLabel('Name that its provider knows').fill('deployment')
    await page.getByLabel('Protocol').selectOption('openai-responses')
    await page.getByLabel('Cloud that hosts it').selectOption('Azure OpenAI')
    await page.getByLabel('Address').fill('https://my-resource.openai.azure.com/openai/v1')
    await page.getByLabel('Label').fill('Our deployment')
    await page.getByLabel('Input, USD per million tokens').fill('1')
    await page.getByLabel('Output, USD per million tokens').fill('2')
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'model-form')
    await page.getByLabel('Label').fill(HOSTILE)
    await page.getByRole('button', { name: 'Add model' }).click()
    await page.getByText('Saved. Store its key').waitFor()

    await page.getByRole('button', { name: 'Edit custom/azure' }).click()
    await page.getByLabel('Output, USD per million tokens').fill('3')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('region', { name: 'Custom models' }).getByText('$3.00').waitFor()
    const { models } = (await app.call(listModels)).body
    expect(models).toMatchObject([{ catalogId: 'custom/azure', cloud: 'azure', prices: { output: 3 } }])
    expect(await page.evaluate('window.harmed')).toBeUndefined()
  })

  test('a read key sees the catalog but no form', async () => {
    await using opened = await open('models', await readerKey())
    await opened.page.getByRole('region', { name: 'Catalog' }).getByRole('row').nth(1).waitFor()
    expect(await opened.page.getByRole('button', { name: /Add|Edit|Delete|Save/ }).count()).toBe(0)
  })
})

describe('webhooks', () => {
  test('one is added, tested, sent again, disabled and deleted, with its deliveries', async () => {
    const tls = await trustedCertificate([HOST])
    await using receiver = await startReceiver(tls)
    const driver = createWebhookDriver(app)
    await using opened = await open('webhooks')
    const { page, errors } = opened
    await page.getByText('assay webhooks add').waitFor()
    await page.getByLabel(/^Address/).fill(receiver.url)
    await page.getByLabel('Description').fill(`Team room ${HOSTILE}`)
    await page.getByRole('checkbox', { name: 'batch.failed' }).uncheck()
    await page.getByRole('button', { name: 'Add webhook' }).click()
    await page.getByText(/^whsec_/).waitFor()
    expect(await page.content()).not.toContain('hush-hush')
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'webhooks')

    await page.getByRole('link', { name: `https://${HOST}` }).click()
    await page.getByText('assay webhooks test').waitFor()
    receiver.answers(500)
    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByText('● pending').waitFor()
    await driver.send()
    receiver.answers(204)
    await driver.sendWaiting()
    await page.getByText('✓ delivered').waitFor()
    await page.getByRole('button', { name: 'webhook.test', exact: true }).click()
    await page.getByRole('region', { name: 'Body as it was signed' }).getByText('webhook.test').waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'webhook')
    await page.getByRole('button', { name: 'Send again: webhook.test' }).click()
    await page.getByText('● pending').waitFor()
    await driver.send()
    await page.getByText('✓ delivered').waitFor()
    expect(receiver.received).toHaveLength(3)
    expect(await page.evaluate('window.harmed')).toBeUndefined()

    await using reader = await open('webhooks', await readerKey())
    await reader.page.getByRole('link', { name: `https://${HOST}` }).click()
    await reader.page.getByText('✓ delivered').waitFor()
    expect(await reader.page.getByRole('button', { name: /Send|Disable|Rotate|Delete/ }).count()).toBe(0)

    await page.getByRole('button', { name: 'Disable' }).click()
    await page.locator('.title-line .chip', { hasText: 'disabled' }).waitFor()
    await page.getByRole('button', { name: `Delete https://${HOST}` }).click()
    await page.getByRole('button', { name: `Confirm: Delete https://${HOST}` }).click()
    await page.getByText('assay webhooks add').waitFor()
    expect(errors).toEqual([])
  })

  test('an address that is not public is refused beside the form, and the page fits on a phone', async () => {
    await using opened = await open('webhooks')
    const { page } = opened
    await page.getByLabel(/^Address/).fill('https://localhost/')
    await page.getByRole('button', { name: 'Add webhook' }).click()
    await page.getByRole('alert').filter({ hasText: 'URL not allowed' }).waitFor()
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
  })
})
