import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../support/app.ts'
import { assay, type CommandResult, scratchFolder } from '../support/assay-command.ts'
import { findViolations, savePictures, startBrowser } from '../support/browser.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'

const HOSTILE =
  '</pre></title><script>window.owned=1</script><img src=x onerror="window.owned=1">\u202egpj\u001b[31mred'
const SHOWN = '<script>window.owned=1</script><img src=x onerror="window.owned=1">[U+202E]gpj'
const PATCH = `diff --git a/money.py b/money.py
--- a/money.py
+++ b/money.py
@@ -1 +1 @@
-    return int(amount + 0.5)
+    return amount.quantize(step) # ${HOSTILE}
`
const TRAJECTORY = JSON.stringify({
  schema_version: 'ATIF-v1.7',
  agent: { name: HOSTILE, version: '1' },
  steps: [
    { step_id: 1, source: 'user', message: 'Round half even.' },
    {
      step_id: 2,
      source: 'agent',
      message: HOSTILE,
      tool_calls: [{ function_name: HOSTILE, arguments: { command: `echo '${HOSTILE}'` } }],
      observation: { results: [{ content: `ValueError: ${HOSTILE}\n`.repeat(100) }] },
    },
  ],
})

const scratch = scratchFolder()
const folder = join(scratch.path, 'deep', 'export')
let app: TestApp
let browser: Browser
let id: string
let exported: CommandResult

const run = (...args: string[]): Promise<CommandResult> =>
  assay(['comparisons', 'export', 'assay/quick', id, ...args], {
    env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey },
    cwd: scratch.path,
  })

beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), startBrowser()])
  const engine = createScriptedEngine(({ outputFolder, harness }) => {
    const write = (name: string, content: string) => writeFileSync(join(outputFolder, name), content)
    write('verifier.log', `collected 2 items\nFAILED test_money.py - ${HOSTILE}\n`)
    write('changes.patch', PATCH)
    write('trajectory.json', TRAJECTORY)
    mkdirSync(join(outputFolder, 'artifacts'))
    write('artifacts/<b>page.html', HOSTILE)
    if (harness === 'oracle') return {}
    return { steps: [{ failedTests: [HOSTILE], agent: null } as never] }
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create()
  await lab.work()
  id = body.id
  const { pool } = app.database
  await pool.query('update comparison_tasks set name = name || $1 where position = 0', [HOSTILE])
  await pool.query(`update comparison_settings set label = label || $1 where harness = 'oracle'`, [HOSTILE])
  exported = await run('--html', '--output', folder)
}, 120_000)
afterAll(async () => {
  await browser?.close()
  await app?.[Symbol.asyncDispose]()
  scratch.remove()
})

/** Opens a page of the folder from disk. Collects every request outside the folder, and errors. */
async function open(file: string, act: (page: Page, checkRules: () => Promise<void>) => Promise<void>): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  const [foreign, errors]: [string[], string[]] = [[], []]
  const root = pathToFileURL(folder).href
  page.on('request', (request) => request.url().startsWith(root) || foreign.push(request.url()))
  page.on('requestfailed', (request) => errors.push(request.url()))
  page.on('console', (message) => errors.push(message.text()))
  await page.goto(pathToFileURL(join(folder, file)).href)
  await act(page, async () => {
    const before = errors.length
    expect(await findViolations(page)).toEqual([])
    // The rules try to read the stylesheet by a request, which the policy refuses.
    errors.length = before
  })
  expect(await page.evaluate('window.owned')).toBeUndefined()
  expect({ foreign, errors }).toEqual({ foreign: [], errors: [] })
  await page.close()
}

test('the folder is complete, small, and has only pages and one stylesheet', () => {
  expect(exported).toMatchObject({ code: 0, out: `${folder}\n` })
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.includes('.'))
  expect(files.filter((file) => !/^(index\.html|style\.css|(trials|pairs)\/[\w-]+\.html)$/.test(file))).toEqual([])
  expect(files.filter((file) => file.startsWith('trials/'))).toHaveLength(10)
  const bytes = files.reduce((sum, file) => sum + statSync(join(folder, file)).size, 0)
  expect(bytes).toBeLessThan(400_000)
  expect(readFileSync(join(folder, 'style.css'), 'utf8')).not.toContain('url(')
})

test('answer, map, pairs, trials and diffs are read from disk without scripts; hostile text is inert', async () => {
  await open('index.html', async (page, checkRules) => {
    expect(await page.locator('.answer').innerText()).toContain('Only reference settings were compared')
    expect(await page.locator('.legend').innerText()).toContain(SHOWN)
    expect(await page.locator('.map tbody tr').count()).toBe(5)
    await checkRules()
    await savePictures(page, 'export')

    await page.getByRole('region', { name: 'Pairs of settings' }).getByRole('link', { name: '5 tasks' }).click()
    expect(await page.locator('h2').allInnerTexts()).toEqual(['Solved by A only: 5'])
    await checkRules()
    await page.getByRole('link', { name: 'trial of B' }).first().click()
    expect(await page.locator('h1').innerText()).toContain('failed')
    expect(await page.locator('h1').innerText()).toContain(SHOWN)
    await page.getByRole('link', { name: 'Comparison' }).click()
    await page.locator('.cell.failed a').first().click()

    expect(await page.locator('.answer').innerText()).not.toBe('')
    expect(await page.locator('.fail').innerText()).toContain(SHOWN)
    expect(await page.locator('.lines .added').innerText()).toContain(`quantize(step) # </pre></title>${SHOWN}`)
    expect(await page.locator('.lines').nth(1).innerText()).toContain(SHOWN)
    expect(await page.locator('.event').count()).toBe(4)
    await page.locator('.event.error summary').click()
    expect(await page.locator('.event.error pre').innerText()).toContain(SHOWN)
    await checkRules()
    await savePictures(page, 'export-trial')
  })
})

test('wrong use writes nothing: without the format, and over an existing folder', async () => {
  expect(await run()).toMatchObject({ code: 2, err: expect.stringContaining('Choose one format') })
  const again = await run('--html', '--output', folder)
  expect(again).toMatchObject({ code: 2, err: expect.stringContaining('already exists') })
  expect(existsSync(join(scratch.path, `comparison-${id.slice(0, 8)}`))).toBe(false)
  expect(readdirSync(join(scratch.path, 'deep'))).toEqual(['export'])
})
