import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectRepository } from '../../src/repos/schema.ts'
import { createKey } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, openBrowser, openPage, openSignedIn, savePictures, signIn } from '../support/browser.ts'
import { openRepositoryModelComparisonLab } from '../support/model-comparing.ts'
import { openReleaseLab } from '../support/releases.ts'

const HOSTILE = '<img src=x onerror="window.harmed=1">\u202e'
const MODEL = 'anthropic/claude-sonnet-5'

let app: TestApp
let browser: Browser
beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local' }), openBrowser()])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

async function openLab(label = 'Large') {
  const lab = await openReleaseLab(app)
  await lab.ran(
    { id: 'acme/small|mini|low', cells: 'ppffff', micros: 1000, label: 'Small' },
    { id: 'acme/large|mini|high', cells: 'pppppf', micros: 5000, label },
    { id: 'reference|oracle|none', cells: 'pppppp', micros: 0, provider: 'none', label: 'Reference' },
  )
  return { ...lab, path: `/app/repos/${lab.place.owner}/${lab.place.name}/publish` }
}

const open = (path: string, key = app.adminKey) => openSignedIn(browser, app.url, { path, key })

async function publish(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Publish \d setting/ }).click()
  await page.getByRole('button', { name: /^Confirm: Publish/ }).click()
  await page.getByText('✓ Published.').waitFor()
}

describe('publishing', () => {
  test('a comparison of a repository leads to its public page, from the form to the results', async () => {
    await using lab = await openRepositoryModelComparisonLab(async (ask, { task }) => {
      await ask()
      const isPassed = !task.name.includes('two')
      return { state: isPassed ? 'passed' : 'failed', class: 'verified', reward: isPassed ? 1 : 0 }
    })
    const { place } = lab.repository
    const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
    await lab.app.call(connectRepository, { params: place, body: { source, visibility: 'public' } })
    await lab.offer()
    await using opened = await openPage(browser, lab.app.url)
    const { page, errors } = opened
    const repository = `${place.owner}/${place.name}`
    await signIn(page, lab.app.adminKey, `/app/comparisons/new?on=repository%20${encodeURIComponent(repository)}`)
    await page.getByLabel('Add a model').selectOption(MODEL)
    await page.getByRole('button', { name: 'Start comparison' }).click()
    await page.locator('.title-line .chip', { hasText: 'submitting' }).waitFor()
    await lab.work()
    await page.locator('.title-line .chip', { hasText: 'completed' }).waitFor()

    await page.getByRole('application').focus()
    await page.keyboard.press('ArrowRight')
    await page.getByRole('link', { name: 'Attempt 1' }).click()
    await page.getByRole('heading', { name: 'Phases' }).waitFor()
    await page.goBack()

    await page.getByRole('link', { name: 'Publish' }).click()
    const frame = page.frameLocator('iframe')
    await frame.getByRole('heading', { name: 'All settings' }).waitFor()
    await publish(page)
    await page.getByRole('link', { name: 'Open the public page' }).click()
    await page.getByRole('heading', { name: 'Accuracy and cost' }).waitFor()
    expect(new URL(page.url()).pathname).toBe(`/results/${repository}`)
    await page.getByText('80 %').first().waitFor()
    expect(errors).toEqual([])
  })

  test('settings are chosen, the page and the differences follow, and a release is withdrawn with a reason', async () => {
    const { path, list } = await openLab()
    await using opened = await open(path)
    const { page, errors } = opened
    const frame = page.frameLocator('iframe')
    await frame.locator('table').getByText('Large').first().waitFor()
    await page.getByText('a control without a model, never published').waitFor()
    expect(await findViolations(page)).toEqual([])

    await page.getByRole('checkbox', { name: /Large/ }).uncheck()
    await page.getByRole('button', { name: 'Publish 1 setting' }).waitFor()
    await frame.locator('table').getByText('Large').first().waitFor({ state: 'detached' })
    await publish(page)
    await page.getByText('● public').waitFor()

    await page.getByRole('checkbox', { name: /Large/ }).check()
    await page.getByText('✓ Published.').waitFor({ state: 'detached' })
    await page
      .getByRole('region', { name: 'Changes' })
      .getByRole('row', { name: /Large.*new 83 %/ })
      .waitFor()
    await publish(page)
    expect((await list()).map(({ settings }: { settings: object[] }) => settings.length)).toEqual([2, 1])

    await page.getByText('Withdraw…').first().click()
    await page.getByLabel('Reason, which everybody can read').first().fill(`Two tasks were broken. ${HOSTILE}`)
    await page
      .getByRole('button', { name: /^Withdraw the release/ })
      .first()
      .click()
    await page.getByText('Two tasks were broken. <img').waitFor()
    await page.getByText('× withdrawn').waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()
    expect(await findViolations(page)).toEqual([])
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(errors).toEqual([])
  })

  test('results that changed since the preview are shown again instead of published', async () => {
    const { path, ran, list } = await openLab()
    await using opened = await open(path)
    const { page } = opened
    await page.getByRole('button', { name: 'Publish 2 settings' }).click()
    await ran({ id: 'acme/medium|mini|low', cells: 'pppfff', micros: 1000, label: 'Medium' })
    await page.getByRole('button', { name: /^Confirm: Publish/ }).click()
    await page.getByRole('alert').filter({ hasText: 'Results have changed since the preview' }).waitFor()
    await page.getByRole('checkbox', { name: /Medium/ }).waitFor()
    expect(await list()).toEqual([])
  })

  test('a read key sees the preview but nothing that publishes or withdraws', async () => {
    const { path, publishAll } = await openLab(`Large ${HOSTILE}`)
    await publishAll()
    const { body } = await app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using opened = await open(path, body.key)
    const { page } = opened
    await page.frameLocator('iframe').getByRole('heading', { name: 'All settings' }).waitFor()
    await page.getByText('● public').waitFor()
    expect(await page.getByRole('button', { name: /Publish/ }).count()).toBe(0)
    expect(await page.getByText('Withdraw').count()).toBe(0)
    await page.getByRole('checkbox', { name: /Large <img/ }).waitFor()
    for (const each of page.frames()) expect(await each.evaluate('window.harmed')).toBeUndefined()
  })

  test('releases of all repositories are listed, and an empty one says what to do', async () => {
    const { place, publishAll, path } = await openLab()
    await publishAll()
    await using opened = await open('/app/releases')
    const { page, errors } = opened
    await page.getByRole('link', { name: `Public page of ${place.owner}/${place.name}`, exact: true }).waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'releases')
    await page.getByRole('link', { name: `${place.owner}/${place.name}`, exact: true }).click()
    await page.getByRole('heading', { name: 'Publish', level: 1 }).waitFor()
    expect(new URL(page.url()).pathname).toBe(path)
    await app.call(connectRepository, {
      params: { owner: 'lab', name: 'empty' },
      body: { source: { kind: 'git', url: 'https://git.example.org/empty.git' } },
    })
    await page.goto('/app/repos/lab/empty/publish')
    await page.getByText('assay compare --repo lab/empty').waitFor()
    await page.getByText('assay releases publish --repo lab/empty').waitFor()
    expect(errors).toEqual([])
  })
})
