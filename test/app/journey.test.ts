import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../samples/provider/provider.ts'
import quick from '../../samples/provider/quick.json' with { type: 'json' }
import { assay } from '../support/assay-command.ts'
import { openBrowser, openPage, signIn } from '../support/browser.ts'
import { hasPart } from '../support/parts.ts'
import { type ServiceProcess, startService } from '../support/service.ts'

const MODEL = 'custom/scripted'
const MODEL_FLAGS = [
  ...['--name', 'scripted-1', '--label', 'Scripted', '--protocol', 'openai-chat', '--levels', 'low,high'],
  ...['--base-url', 'https://scripted.example.com/v1', '--input', '2', '--output', '10', '--cache-read', '0.2'],
]
const TASKS = ['greet-in-bash', 'pack-it-up', 'earn-partial-credit']
/** Real sandboxes need more time than the pages. */
const TRIALS_MS = 240_000

/** The whole way in the browser: a real service, real sandboxes, and the scripted provider behind the real gateway. */
describe.skipIf(!hasPart('bwrap'))('the workspace app', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-journey-'))
  const archive = join(folder, 'tasks.tar.gz')
  let service: ServiceProcess
  let provider: Provider
  let browser: Browser
  beforeAll(async () => {
    ;[provider, browser] = await Promise.all([startProvider(quick), openBrowser()])
    service = await startService('serve', ['--data', join(folder, 'data'), '--port', '0'], {
      ASSAY_ALLOW_HOST_BASE: '1',
      ASSAY_SANDBOXES: 'local',
      ASSAY_REGISTRIES: 'samples',
      ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${provider.url}/v1`,
    })
    const env = { ASSAY_URL: service.url, ASSAY_KEY: key(), SCRIPTED_KEY: 'none-is-needed' }
    const add = ['credentials', 'add', 'model', MODEL, '--name', 'Script', '--from-env', 'apiKey=SCRIPTED_KEY']
    for (const args of [['models', 'add', MODEL, ...MODEL_FLAGS], add])
      expect(await assay(args, { env })).toMatchObject({ code: 0 })
    execFileSync('tar', ['-czf', archive, '-C', 'samples/tasks', ...TASKS])
  }, 120_000)
  afterAll(async () => {
    await browser.close()
    await service.kill('SIGTERM')
    await provider[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  const key = (): string => service.newKey ?? ''
  const waitForState = (page: Page, name: string) =>
    page.locator('.title-line .chip', { hasText: name }).waitFor({ timeout: TRIALS_MS })

  /** Chooses the scripted model with the harness mini at both levels. */
  async function chooseModels(page: Page): Promise<void> {
    for (const level of ['high', 'low']) {
      await page.getByLabel('Add a model').selectOption(MODEL)
      const row = page.locator('.model-row').last()
      await row.getByLabel('level').selectOption(level)
      for (const box of await row.getByRole('checkbox').all()) await box.setChecked(false)
      await row.getByLabel('mini').check()
    }
  }

  async function start(page: Page): Promise<void> {
    await page.getByText('Smallest visible difference').waitFor()
    await page.getByRole('button', { name: 'Start comparison' }).click()
    await waitForState(page, 'running')
    await waitForState(page, 'completed')
  }

  test(
    'onboarding leads to a benchmark, its comparison is watched live, and a trial and two settings are looked into',
    async () => {
      await using opened = await openPage(browser, service.url)
      const { page, errors } = opened
      await signIn(page, key())
      await page.getByRole('link', { name: 'Add assay/quick' }).click()
      await page.getByRole('button', { name: 'Add', exact: true }).click()
      await page.getByRole('heading', { name: 'assay/quick', level: 1 }).waitFor()
      await page.getByRole('link', { name: 'Compare', exact: true }).click()
      await chooseModels(page)
      await start(page)
      await page.locator('.answer-text', { hasText: 'Scripted' }).waitFor()

      await page.getByRole('application').focus()
      await page.keyboard.press('ArrowRight')
      await page.getByRole('link', { name: 'Attempt 1' }).click()
      await page.getByRole('heading', { name: 'Phases' }).waitFor()
      await page.locator('.trace li').first().waitFor()
      await page.getByRole('link', { name: 'Recording' }).click()
      await page.getByRole('button', { name: 'Play' }).waitFor()
      await page.goBack()

      await page.getByRole('link', { name: 'Compare two settings' }).click()
      await page.getByText(/Scripted · mini · \w+ solved .* on 5 tasks/).waitFor()
      expect(errors).toEqual([])
    },
    2 * TRIALS_MS,
  )

  test(
    'a git repository is connected, its tasks are imported, approved by keyboard, compared and published',
    async () => {
      await using opened = await openPage(browser, service.url)
      const { page, errors } = opened
      await signIn(page, key(), '/app/repos')
      await page.getByLabel('Owner and name').fill('lab/journey')
      await page.getByLabel('Git address, unless it is on GitHub').fill('https://git.example.org/journey.git')
      await page.getByLabel('Everyone can read it').check()
      await page.getByRole('button', { name: 'Connect' }).click()
      await page.getByLabel('Archive (.tar.gz)').setInputFiles(archive)
      await page.getByRole('button', { name: 'Import' }).click()
      const batch = page.locator('li', { hasText: 'Import of' }).first()
      await batch.getByText(/^completed/).waitFor({ timeout: TRIALS_MS })
      expect(await batch.innerText()).toContain('3 tasks to review')

      await page.getByRole('link', { name: /^Import of/ }).press('Enter')
      await page.getByText('Evidence').waitFor()
      for (const index of TASKS.keys()) {
        await page.locator('.review-list [aria-current="true"]', { hasNotText: 'approved' }).waitFor()
        await page.keyboard.press('a')
        await page.locator('.review-list li', { hasText: 'approved' }).nth(index).waitFor()
      }

      await page.goto('/app/comparisons/new?on=repository%20lab%2Fjourney')
      await chooseModels(page)
      await start(page)
      await page.getByRole('link', { name: 'Publish' }).click()
      await page.getByRole('button', { name: /^Publish \d setting/ }).click()
      await page.getByRole('button', { name: /^Confirm: Publish/ }).click()
      await page.getByRole('link', { name: 'Open the public page' }).click()
      await page.getByRole('heading', { name: 'Accuracy and cost' }).waitFor()
      expect(new URL(page.url()).pathname).toBe('/results/lab/journey')
      expect(errors).toEqual([])
    },
    2 * TRIALS_MS,
  )
})
