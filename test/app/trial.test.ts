import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, openBrowser, openPage, savePictures, signIn } from '../support/browser.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'

const HOSTILE = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>\u202egpj.exe\u001b[31mred\u001b[0m'
const FAILED = 'test_money.py::test_rounds_half_even'
const PATCH = `diff --git a/billing/money.py b/billing/money.py
--- a/billing/money.py
+++ b/billing/money.py
@@ -1,3 +1,3 @@ def round(amount, digits):
 import decimal
-    return int(amount * 10**digits + 0.5) / 10**digits
+    return amount.quantize(step, ROUND_HALF_EVEN) # ${HOSTILE}
`
const AGENT_STEPS = 25_000
const LOG_LINES = 400_000

/** Step whose output is hostile. */
const HOSTILE_STEP = 15

function outputOf(index: number): string {
  if (index === HOSTILE_STEP - 1) return HOSTILE
  return index % 10 === 0 ? 'ValueError: no' : `passed ${index}\n`.repeat(4)
}

/** A trajectory of two events per step, with an error in every tenth result. */
function buildTrajectory(steps: number): object {
  return {
    schema_version: 'ATIF-v1.7',
    agent: { name: 'mini', version: '1', model_name: 'scripted' },
    steps: Array.from({ length: steps }, (_, index) =>
      index === 0
        ? { step_id: 1, source: 'user', message: 'Round half even.', reasoning_content: 'Read the tests.' }
        : {
            step_id: index + 1,
            source: 'agent',
            message: '',
            tool_calls: [{ tool_call_id: 'a', function_name: 'shell', arguments: { command: `pytest -k ${index}` } }],
            observation: { results: [{ content: outputOf(index) }] },
            metrics: { prompt_tokens: 1200, completion_tokens: 80, cost_usd: 0.012 },
          },
    ),
  }
}

let app: TestApp
let browser: Browser
let trials: ComparisonTrial[]

beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), openBrowser()])
  const long = { isWritten: false }
  const engine = createScriptedEngine(({ outputFolder, harness }) => {
    const isLong = harness === 'oracle' && !long.isWritten
    if (isLong) long.isWritten = true
    const write = (name: string, content: string) => writeFileSync(join(outputFolder, name), content)
    write('verifier.log', `collected 2 items\nFAILED ${FAILED} - AssertionError\n${HOSTILE}\n`)
    write('changes.patch', PATCH)
    write('trajectory.json', JSON.stringify(buildTrajectory(isLong ? AGENT_STEPS : 20)))
    write('agent.log', isLong ? 'line of a long log\n'.repeat(LOG_LINES) : `${HOSTILE}\n`)
    const events = [
      [0.2, 'o', 'Reading the tests.\r\n'],
      [1.5, 'o', HOSTILE],
    ]
    write('agent.cast', ['{"version":2}', ...events.map((event) => JSON.stringify(event))].join('\n'))
    mkdirSync(join(outputFolder, 'artifacts'))
    write('artifacts/<b>page.html', HOSTILE)
    if (harness === 'oracle') return {}
    const step = { failedTests: [FAILED], agent: null } as never
    return { steps: [step], timings: { prepare: 4.2, agent: 151, verify: 12.5, total: 167.7 } }
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create()
  await lab.work()
  trials = await lab.trials(body.id)
}, 120_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

/** Returns the trial of a state with the most bytes. */
const idOf = (state: string): string => {
  const bytes = ({ artifacts }: ComparisonTrial) => artifacts.reduce((sum, artifact) => sum + artifact.bytes, 0)
  const [trial] = trials.filter((each) => each.state === state).sort((a, b) => bytes(b) - bytes(a))
  if (!trial) throw new Error(`No trial is ${state}.`)
  return trial.id
}

async function openTrial(state: string, query = '') {
  const opened = await openPage(browser, app.url)
  await signIn(opened.page, app.adminKey, `/app/trials/${idOf(state)}${query}`)
  await opened.page.getByRole('navigation', { name: 'Evidence' }).waitFor()
  return opened
}

describe('a trial', () => {
  test('shows verdict, explanation, phases and evidence without violations in both themes', async () => {
    await using opened = await openTrial('failed')
    const { page } = opened
    await page.getByText('Round half even.').waitFor()
    expect(await page.locator('.title-line').innerText()).toContain('failed')
    expect(await page.locator('.explanation').innerText()).not.toBe('')
    expect(await page.locator('.timeline-key').innerText()).toMatch(/agent 2\smin 31\ss/)
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'trial')
    for (const tab of ['Diff', 'Verifier', 'Logs', 'Recording', 'Model calls', 'Files']) {
      await page.getByRole('navigation', { name: 'Evidence' }).getByRole('link', { name: tab }).click()
      await page.locator('.evidence > :nth-child(2)').waitFor()
      expect(await findViolations(page), tab).toEqual([])
    }
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(opened.errors).toEqual([])
  })

  test('leads to the trials of the same setting on other tasks by key', async () => {
    await using opened = await openTrial('failed')
    const { page } = opened
    const title = await page.getByRole('heading', { level: 1 }).innerText()
    await page.keyboard.press(']')
    // The heading of the next trial, not the one that is shown while it loads.
    await page.getByRole('heading', { level: 1, name: 'assay/' }).filter({ hasNotText: title }).waitFor()
    await page.keyboard.press('[')
    await page.getByRole('heading', { level: 1 }).filter({ hasText: title }).waitFor()
  })

  test('a trial that does not exist is a problem with its reason', async () => {
    await using opened = await openPage(browser, app.url)
    await signIn(opened.page, app.adminKey, '/app/trials/00000000-0000-8000-8000-000000000000')
    await opened.page.getByRole('alert').filter({ hasText: 'not found' }).waitFor()
  })
})

describe('evidence', () => {
  test('a trajectory of 50,000 events is filtered, searched and linked with few elements', async () => {
    await using opened = await openTrial('passed', '?step=20000')
    const { page } = opened
    await page.getByText('$ pytest -k 19999').waitFor()
    expect(await page.locator('.trace li').count()).toBeLessThan(60)
    expect(await page.locator('*').count()).toBeLessThan(800)
    await page.getByRole('button', { name: /^Errors/ }).click()
    await page.getByText('2,499 events').waitFor()
    await page.getByRole('button', { name: /^All/ }).click()
    await page.getByLabel('Search the trajectory').fill('-K 24999')
    await page.getByText('1 event', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Link to step 25000' }).click()
    expect(new URL(page.url()).search).toBe('?step=25000')
  })

  test('failed tests come before the output and lead to their line', async () => {
    await using opened = await openTrial('failed', '?tab=verifier')
    const { page } = opened
    await page.getByRole('button', { name: FAILED }).click()
    expect(await page.locator('.line.target').innerText()).toContain(`FAILED ${FAILED}`)
    await savePictures(page, 'trial-verifier')
  })

  test('a diff has its files and colours', async () => {
    await using opened = await openTrial('failed', '?tab=diff')
    const { page } = opened
    await page.getByRole('button', { name: 'billing/money.py' }).waitFor()
    expect(await page.locator('.line.added').innerText()).toContain('ROUND_HALF_EVEN')
    expect(await page.locator('.line.removed').count()).toBe(1)
    await page.locator('.line.removed .code-keyword', { hasText: 'return' }).waitFor()
    expect(await page.locator('.line.added .code-comment').innerText()).toContain('<script>')
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'trial-diff')
  })

  test('a long log has its first lines at once and its last on demand', async () => {
    await using opened = await openTrial('passed', '?tab=logs')
    const { page } = opened
    await page.getByText('line of a long log').first().waitFor()
    await page.getByText(LOG_LINES.toLocaleString('en')).waitFor()
    expect(await page.locator('.line').count()).toBeLessThan(120)
    await page.getByRole('button', { name: 'Go to the end' }).click()
    await page.locator('.line-number', { hasText: String(LOG_LINES) }).waitFor()
  })

  test('text of an agent is not executed and cannot disguise itself', async () => {
    await using opened = await openTrial('failed')
    const { page } = opened
    for (const tab of ['trajectory', 'diff', 'verifier', 'logs']) {
      await page.goto(`/app/trials/${idOf('failed')}?tab=${tab}&step=${HOSTILE_STEP}`)
      await page.getByText('[U+202E]gpj.exered').first().waitFor()
      expect(await page.locator('img, .evidence script').count()).toBe(0)
    }
    await page.goto(`/app/trials/${idOf('failed')}?tab=recording`)
    await page.getByRole('button', { name: 'Play' }).click()
    await page.getByText('[U+202E]gpj.exered').first().waitFor()
    await savePictures(page, 'recording')
    expect(await page.locator('img, .evidence script').count()).toBe(0)
    expect(await page.evaluate('window.owned')).toBeUndefined()
    await page.goto(`/app/trials/${idOf('failed')}?tab=files`)
    const link = page.getByRole('link', { name: 'artifacts/<b>page.html' })
    const file = await page.request.get((await link.getAttribute('href')) ?? '')
    expect(file.headers()['content-disposition']).toMatch(/^attachment/)
    expect(file.headers()['content-security-policy']).toBe('sandbox')
    expect(opened.errors).toEqual([])
  })
})
