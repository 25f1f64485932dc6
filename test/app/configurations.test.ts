import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey } from '../../src/workspaces/schema.ts'
import { findViolations, openBrowser, openSignedIn, savePictures } from '../support/browser.ts'
import { openModelComparisonLab } from '../support/model-comparing.ts'

const HOSTILE = '<img src=x onerror="window.harmed=1">\u202e'
const MODEL = 'anthropic/claude-sonnet-5'

let lab: Awaited<ReturnType<typeof openModelComparisonLab>>
let browser: Browser
beforeAll(async () => {
  ;[lab, browser] = await Promise.all([
    openModelComparisonLab(async (ask) => {
      await ask()
      return { state: 'passed', reward: 1 }
    }),
    openBrowser(),
  ])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await lab[Symbol.asyncDispose]()
})

const open = (path: string, key = lab.app.adminKey) => openSignedIn(browser, lab.app.url, { path, key })

describe('configurations', () => {
  test('one is created from pasted and uploaded files, changed as a new version, and compared with none', async () => {
    await using opened = await open('/app/configurations')
    const { page, errors } = opened
    await page.getByText('assay configurations create rules AGENTS.md').waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'configurations')
    await page.getByLabel('Name').fill('rules')
    await page.getByLabel('Content of file 1').fill('Run the tests before you finish.\n')
    const note = { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from(`Be brief. ${HOSTILE}\n`) }
    await page.getByLabel('or upload').setInputFiles(note)
    await page.getByLabel('Text before the instruction').fill('Work in small steps.')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByText('version 1', { exact: true }).waitFor()
    await page.getByRole('region', { name: 'notes.md' }).getByText('Be brief. <img').waitFor()
    await page.getByRole('region', { name: 'Text before the instruction' }).getByText('small steps').waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()
    expect(await findViolations(page)).toEqual([])

    await page.getByRole('button', { name: 'Edit as a new version' }).click()
    await page.getByLabel('Content of file 2').fill('Be brief.\n')
    expect(await findViolations(page)).toEqual([])
    await page.getByRole('button', { name: 'Create version' }).click()
    await page.getByText('version 2', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Version 1' }).waitFor()
    await savePictures(page, 'configuration')
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    await page.setViewportSize({ width: 1440, height: 900 })

    await lab.offer()
    await page.getByRole('link', { name: 'New comparison' }).click()
    await page.getByLabel('Add a model').selectOption(MODEL)
    await page.getByRole('checkbox', { name: 'rules@2' }).check()
    await page.getByText('--configuration none --configuration rules@2').waitFor()
    await page.getByText('10 (5 tasks, 2 settings)').waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.getByRole('button', { name: 'Start comparison' }).click()
    await lab.work()
    await page
      .getByRole('region', { name: 'Settings' })
      .getByRole('row', { name: /rules@2/ })
      .waitFor()
    expect(errors).toEqual([])
  })

  test('a name that is not allowed is refused beside the form, and a read key sees no form', async () => {
    await using opened = await open('/app/configurations')
    const { page } = opened
    await page.getByLabel('Name').fill('none')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'must not be none' }).waitFor()
    const { body } = await lab.app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using reader = await open('/app/configurations', body.key)
    await reader.page.getByRole('heading', { name: 'Configurations' }).waitFor()
    await reader.page.getByRole('link', { name: 'rules' }).click()
    await reader.page.getByText('version 2', { exact: true }).waitFor()
    expect(await reader.page.getByRole('button', { name: /Create|Edit/ }).count()).toBe(0)
  })
})
