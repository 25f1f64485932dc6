import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sandboxJobs } from '../../src/app.ts'
import type { ValidationOutcome } from '../../src/batches/validate.ts'
import { addBenchmark, readBenchmark } from '../../src/benchmarks/schema.ts'
import { createKey } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { smallTask } from '../support/archives.ts'
import { createScriptedValidator, VALID } from '../support/batches.ts'
import { findViolations, openBrowser, openSignedIn, savePictures } from '../support/browser.ts'
import { temporaryFolder, writeFiles } from '../support/harbor/folders.ts'
import { drain } from '../support/jobs/drain.ts'

const HOSTILE = '<img src=x onerror="window.harmed=1">\u202e'
const QUICK = { params: { datasetOrg: 'assay', dataset: 'quick' } }
const PATH = '/app/benchmarks/assay/quick'

let app: TestApp
let browser: Browser
let registry: Awaited<ReturnType<typeof temporaryFolder>>

beforeAll(async () => {
  registry = await temporaryFolder()
  const unsafe = { 'environment/Dockerfile': 'FROM debian\nRUN curl http://169.254.169.254/\n' }
  await writeFiles(join(registry.path, 'lab/unsafe/thief'), smallTask(unsafe))
  ;[app, browser] = await Promise.all([testApp({ ASSAY_REGISTRIES: `samples,dir:${registry.path}` }), openBrowser()])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
  await registry[Symbol.asyncDispose]()
})

const open = (path: string, key = app.adminKey) => openSignedIn(browser, app.url, { path, key })

/** Calibrates the tasks: the first is weak, the second is broken with a hostile reason, the others are fine. */
async function calibrate(): Promise<void> {
  const { taskList } = (await app.call(readBenchmark, QUICK)).body
  const [weak, broken] = taskList.map((task: { digest: string }) => task.digest)
  const validate = createScriptedValidator(({ digest }): ValidationOutcome => {
    if (VALID.kind !== 'valid') return VALID
    const { calibration } = VALID
    if (digest === weak)
      return { kind: 'valid', calibration: { ...calibration, strength: 'weak', winners: ['exit-zero'] } }
    if (digest !== broken) return VALID
    const rejection = { reason: 'oracle_fails' as const, detail: `It does not pass. ${HOSTILE}` }
    return { kind: 'rejected', rejection, calibration: { ...calibration, verifyMode: null, strength: null } }
  })
  await drain(app.tools.database, sandboxJobs({ ...app.tools, validate }, 'local'))
}

describe('benchmarks', () => {
  test('a dataset is added, calibrated and compared on, and removed after a second question', async () => {
    await using opened = await open('/app/benchmarks')
    const { page, errors } = opened
    await page.getByText('assay benchmarks add assay/quick').waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.getByLabel('Name, optionally').fill('assay/quick')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'assay/quick', level: 1 }).waitFor()
    await page.getByText('0 of 5 calibrated').waitFor()
    await page.getByText('assay compare assay/quick').waitFor()

    await calibrate()
    await page.getByText('4 of 5 usable, 1 weak').waitFor()
    await page.getByRole('row', { name: /workspace ! weak exit-zero/ }).waitFor()
    await page.getByRole('row', { name: /It does not pass\. <img/ }).waitFor()
    expect(await page.evaluate('window.harmed')).toBeUndefined()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'benchmark')

    await page.getByRole('link', { name: 'assay/greet-in-bash' }).press('Enter')
    const files = page.locator('.card', { hasText: 'Files of assay/greet-in-bash' })
    await files.getByText('/app/greet.sh').first().waitFor()
    await files.getByLabel('File').selectOption('task.toml')
    await files.getByText('[environment]').waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'benchmark-files')
    await files.getByRole('link', { name: 'Close' }).press('Enter')
    await files.waitFor({ state: 'detached' })
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)

    await page.setViewportSize({ width: 1440, height: 900 })
    await page.getByRole('link', { name: 'Compare', exact: true }).click()
    await page.getByRole('heading', { name: 'New comparison' }).waitFor()
    await page.goto('/app/benchmarks')
    await page.getByRole('row', { name: /assay\/quick.*4 of 5 usable/ }).waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'benchmarks')
    await page.getByRole('link', { name: 'assay/quick', exact: true }).click()
    await page.getByRole('button', { name: 'Remove assay/quick' }).click()
    await page.getByRole('button', { name: 'Confirm: Remove assay/quick' }).click()
    await page.getByText('assay benchmarks add assay/quick').waitFor()
    expect(errors).toEqual([])
  })

  test('a refused dataset shows every finding, and an unknown one says so', async () => {
    await using opened = await open('/app/benchmarks')
    const { page, errors } = opened
    await page.getByLabel('Name, optionally').fill('lab/unsafe')
    await page.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('alert').filter({ hasText: 'did not pass the safety check' }).waitFor()
    await page
      .getByRole('listitem')
      .filter({ hasText: /× refused.*thief/ })
      .first()
      .waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.getByLabel('Name, optionally').fill('lab/nothing')
    await page.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('alert').filter({ hasText: 'Dataset not found' }).waitFor()
    expect(errors).toEqual([])
  })

  test('a read key sees the tasks but nothing that adds, calibrates or removes', async () => {
    await app.call(addBenchmark, { body: { reference: 'assay/quick' } })
    const { body } = await app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using opened = await open(PATH, body.key)
    const { page } = opened
    await page.getByRole('region', { name: 'Tasks' }).getByRole('row').nth(1).waitFor()
    expect(await page.getByRole('button', { name: /Calibrate|Remove/ }).count()).toBe(0)
    await page.getByRole('link', { name: 'Benchmarks' }).first().click()
    await page.getByRole('table').waitFor()
    expect(await page.getByRole('button', { name: 'Add' }).count()).toBe(0)
  })
})
