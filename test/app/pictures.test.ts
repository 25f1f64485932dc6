import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ComparisonSetting } from '../../src/comparisons/shapes/schema.ts'
import { connectRepository } from '../../src/repos/schema.ts'
import { smallTask } from '../support/archives.ts'
import { openBrowser, openPage, savePictures, signIn, watchFirstEvent } from '../support/browser.ts'
import { APPROVED } from '../support/comparisons.ts'
import { openRepositoryModelComparisonLab } from '../support/model-comparing.ts'

/** Folder for pictures of the pages around a comparison. Not set in ordinary runs: pictures are taken on request. */
const FOLDER = process.env.ASSAY_PICTURES
const TIMEOUT_MS = 600_000

const TASKS = [
  ...['retry-on-deadlock', 'parse-iban', 'round-half-even', 'ledger-export', 'void-invoice', 'tax-zones', 'sepa-batch'],
  ...['dunning-levels', 'due-dates', 'credit-notes', 'currency-pairs', 'csv-quotes', 'vat-ids', 'bank-holidays'],
]
const CHOICES = [
  { harness: 'claude-code', level: 'high', solves: 0.78 },
  { harness: 'opencode', level: 'high', solves: 0.6 },
  { harness: 'claude-code', level: 'low', solves: 0.66 },
  { harness: 'mini', level: 'low', solves: 0.4 },
]
/** Trials that start before the page is opened, and before the pictures of a running comparison are taken. */
const OPENED = 58
const FINISHED = 62

/** Stops a trial until the pictures of that moment have been taken. */
const createGate = () => ({ reached: Promise.withResolvers<void>(), passed: Promise.withResolvers<void>() })
type Gates = Record<number, ReturnType<typeof createGate>>

/** Returns a number from 0 to 1 that depends only on the text. */
const draw = (text: string): number => createHash('sha256').update(text).digest().readUInt16BE() / 0xffff

const PATCH = `--- a/billing/money.py
+++ b/billing/money.py
@@ -1,3 +1,3 @@ def round(amount, digits):
-    return int(amount * 10**digits + 0.5) / 10**digits
+    step = Decimal(1).scaleb(-digits)
+    return Decimal(amount).quantize(step, ROUND_HALF_EVEN)
`

const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: { input: 60_000, output: 9000 } }] }] }

function judge(task: string, harness: string, level: string) {
  const solves = CHOICES.find((each) => each.harness === harness && each.level === level)?.solves ?? 0.5
  if (0.75 * draw(task) + 0.25 * draw(`${task} ${harness} ${level}`) < solves)
    return { state: 'passed' as const, reward: 1 }
  const isLate = draw(`late ${task} ${harness}`) < 0.1
  return { state: 'failed' as const, reward: 0, class: isLate ? ('agent_timeout' as const) : ('verified' as const) }
}

/** Settings solve easy tasks more often than hard ones. One trial runs at a time. */
function openLab(gates: Gates) {
  let started = 0
  return openRepositoryModelComparisonLab(async (ask, { task, harness, model, outputFolder }) => {
    const level = model?.access.level ?? ''
    await ask()
    if (level === 'high') await ask()
    started += 1
    gates[started]?.reached.resolve()
    await gates[started]?.passed.promise
    writeFileSync(join(outputFolder, 'changes.patch'), PATCH)
    return judge(task.name, harness, level)
  }, script)
}

test.skipIf(!FOLDER)(
  'takes a picture of every page around a comparison in both themes',
  async () => {
    const [opening, finishing] = [createGate(), createGate()]
    await using lab = await openLab({ [OPENED]: opening, [FINISHED]: finishing })
    await using browser = await openBrowser()
    const { place, imported, decide } = lab.repository
    const source = { kind: 'git', url: 'https://git.example.org/acme/billing.git' } as const
    await lab.app.call(connectRepository, { params: place, body: { source, visibility: 'public' } })
    const folders = TASKS.map((id) => [id, smallTask({ 'instruction.md': `Fix ${id}.\n` })])
    const { runId, tasks } = await imported(Object.fromEntries(folders))
    for (const { taskId, digest } of tasks) await decide(runId, taskId, { digest })
    const chosen = [
      ...APPROVED.map((taskId) => ({ runId: lab.runId, taskId })),
      ...TASKS.map((taskId) => ({ runId, taskId })),
    ]
    const models = CHOICES.map(({ harness, level }) => ({
      ...lab.models[0],
      harnesses: [harness],
      reasoningLevel: level,
    }))
    await lab.offer()
    const { status, body } = await lab.create({ models, tasks: chosen, budgetUsd: 150 })
    expect(status, JSON.stringify(body)).toBe(202)
    const worked = lab.work()
    await opening.reached.promise

    // High enough for every section: those out of view do not follow the trials.
    await using opened = await openPage(browser, lab.app.url, { height: 1420 })
    const { page } = opened
    const path = `/app/repos/${place.owner}/${place.name}/comparisons/${body.id}`
    const chip = (text: string) => page.locator('.title-line .chip', { hasText: text }).waitFor()
    const stream = await watchFirstEvent(page)
    await signIn(page, lab.app.adminKey, path)
    await chip('running')
    await stream.received
    opening.passed.resolve()
    await finishing.reached.promise
    await page.getByRole('region', { name: 'Differences' }).waitFor()
    await page.locator('.activity li').nth(4).waitFor()
    // Results follow the cells of the map after a moment.
    const { settings } = await lab.read(body.id)
    const counts = settings.map(({ passed, tasks }: ComparisonSetting) => `${passed} of ${tasks}`)
    const table = page.getByRole('region', { name: 'Settings' })
    for (const count of counts) await table.getByText(count, { exact: true }).first().waitFor()
    await savePictures(page, 'comparison')
    await page.setViewportSize({ width: 360, height: 740 })
    await savePictures(page, 'comparison-phone')
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.goto('/app')
    await page.getByRole('heading', { name: 'spent in the last 30 days' }).waitFor()
    await savePictures(page, 'overview')
    await page.goto('/app/comparisons')
    await page.getByRole('link', { name: `${place.owner}/${place.name}` }).waitFor()
    await savePictures(page, 'comparisons')
    await page.goto(`/app/comparisons/new?on=repository%20${place.owner}%2F${place.name}`)
    await page.getByLabel('Add a model').selectOption('anthropic/claude-sonnet-5')
    await page.getByText('Smallest visible difference').waitFor()
    await savePictures(page, 'new-comparison')

    finishing.passed.resolve()
    await worked
    await page.goto(path)
    await chip('completed')
    await page.getByRole('link', { name: 'Compare two settings' }).click()
    await page
      .getByRole('button', { name: /^Patches/ })
      .first()
      .click()
    await page.getByRole('region', { name: 'Patch of B' }).waitFor()
    await savePictures(page, 'pair')
    await page.goto(`${path}/task?task=round-half-even`)
    await page
      .getByRole('button', { name: /^Show the changes/ })
      .first()
      .click()
    await savePictures(page, 'task')
    await page.goto(`/app/repos/${place.owner}/${place.name}/publish`)
    await page.frameLocator('iframe').getByRole('heading', { name: 'All settings' }).waitFor()
    await savePictures(page, 'publish')
  },
  TIMEOUT_MS,
)
