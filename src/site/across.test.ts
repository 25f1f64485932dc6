import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { publishTwoSettings } from '../../test/support/releases.ts'

let app: TestApp
let other: Awaited<ReturnType<typeof publishTwoSettings>>
let lab: typeof other
let path: string

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local' })
  other = await publishTwoSettings(app)
  lab = await publishTwoSettings(app)
  path = `/results/${lab.place.owner}/${lab.place.name}`
})
afterAll(() => app[Symbol.asyncDispose]())

const open = async (target: string) => {
  const { status, text } = await app.fetch(target, { headers: { accept: 'text/html' } })
  const words = text
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('\u00a0', ' ')
    .replaceAll(/\s+/g, ' ')
  return { status, text, words }
}

test('a setting is shown on every repository with its interval, and without an average', async () => {
  const { status, words } = await open('/settings/acme/large%7Cmini%7Chigh')
  expect(status).toBe(200)
  expect(words).toContain('Large, mini, high')
  expect(words).toContain(
    'On 2 repositories, it solved 83 % of the tasks for $0.005 each. It is on the frontier of 2 of 2 and the most accurate on 2.',
  )
  expect(words).toContain('There is no average over repositories')
  for (const { name } of [lab.place, other.place]) expect(words).toContain(`lab/${name}`)
})

test('a harness and a model list their settings', async () => {
  const harness = await open('/harnesses/mini')
  expect(harness.words).toContain(
    'On 2 repositories, its 2 settings solved 33 % to 83 % of the tasks for $0.001 to $0.005 each.',
  )
  expect(harness.text).toContain('href="/settings/acme/small%7Cmini%7Clow"')
  const model = await open('/models/acme/small')
  expect(model.words).toContain('Small')
  expect(model.words).toContain('Best there')
  expect(model.words).toContain('83 % $0.005')
  expect(model.words).toContain('It is on the frontier of 2 of 2; another setting is more accurate everywhere.')
  expect(model.words).not.toContain('Large')
})

test('part of a name is no model, harness or setting', async () => {
  for (const target of [
    '/models/acme',
    '/harnesses/min',
    '/settings/acme/large',
    '/models/custom/x',
    '/publishers/nobody',
  ])
    expect((await open(target)).status, target).toBe(404)
})

test('a setting with a configuration is listed by model, and has no page, because its content is private', async () => {
  await lab.ran({ id: 'acme/small|mini|low|careful@2', cells: 'pppfff', label: 'Small' })
  await lab.publishAll()
  expect((await open('/settings/acme/small%7Cmini%7Clow%7Ccareful@2')).status).toBe(404)
  expect((await open(path)).words).toContain('mini · low · careful@2')
  expect((await open('/models/acme/small')).words).toContain('On 2 repositories, its 2 settings solved')
  expect((await open('/settings/acme/small%7Cmini%7Clow')).words).toContain('On 2 repositories, it solved 33 %')
})

test('a publisher has a page with all results', async () => {
  const { status, words, text } = await open('/publishers/local')
  expect(status).toBe(200)
  expect(words).toContain('Published results of 2 repositories')
  expect(text).toContain(`href="${path}"`)
})

test('two releases are compared setting by setting, by default the newest with the one before', async () => {
  const own = await publishTwoSettings(app)
  const base = `/results/${own.place.owner}/${own.place.name}`
  expect((await open(`${base}/compare`)).words).toContain('There is only one release')
  await own.ran({ id: 'acme/third|mini|low', cells: 'pppppp', label: 'Third', micros: 2000 })
  const { body: newer } = await own.publishAll()
  const { words, text } = await open(`${base}/compare`)
  expect(words).toContain(
    '1 new setting. Neither release recommends a setting. Third with mini joined the frontier. Large with mini left it. No accuracy changed by more than noise.',
  )
  const order = [...text.matchAll(/class="model">(?:<a[^>]*>)?<bdi>([^<]*)/g)].map(([, label]) => label)
  expect(order).toEqual(['Third', 'Large', 'Small'])
  expect(text).toContain(`<option value="${newer.releaseId}" selected>`)
  const { words: reverse } = await open(`${base}/compare?from=${newer.releaseId}&to=${own.release.releaseId}`)
  expect(reverse).toContain('1 dropped setting. Neither')
  expect((await open(base)).text).toContain(`/compare?from=${own.release.releaseId}&amp;to=${newer.releaseId}`)
  expect((await open('/results/lab/nothing/compare')).status).toBe(404)
})

test('the guide lists its pages, and every link on them leads to a page', async () => {
  const { text, words } = await open('/guide')
  expect(words).toContain('Run settings on the same tasks, read the answer')
  const pages = [...text.matchAll(/href="(\/guide\/[a-z-]+)"/g)].map(([, href = '']) => href)
  expect(pages.length).toBeGreaterThan(15)
  const targets = new Set<string>()
  for (const path of pages) {
    const page = await open(path)
    expect(page.status, path).toBe(200)
    expect(page.text).toContain(`<a href="${path}" aria-current="page">`)
    for (const [, href = ''] of page.text.matchAll(/href="(\/[^"#]*)/g)) targets.add(href)
  }
  for (const href of targets) expect((await open(href)).status, href).toBe(200)
  for (const path of ['/guide/evidence', '/guide/constructor', '/guide/..%2fREADME'])
    expect((await open(path)).status, path).toBe(404)
})

test('the methodology is rendered from the documentation, and its links lead to pages', async () => {
  const { text, words } = await open('/methodology')
  expect(words).toContain('Trials of one task are correlated, so the task is the unit')
  expect(text).toContain('<h2 id="counted-numbers">')
  for (const [, href = ''] of text.matchAll(/href="(\/[^"#]*)/g)) expect((await open(href)).status, href).toBe(200)
  expect(words.indexOf('How results are made')).toBeLessThan(words.indexOf('Counted numbers'))
  expect(text).toContain('<a class="plain" href="#counted-numbers">')
  const attacks = await open('/methodology/attacks')
  expect(attacks.words).toContain('a reward that lies ready')
  expect(attacks.words).toMatch(
    /Attacks on the verdict Verdicts held: all \d+ attacks on tasks that calibration does not/,
  )
  for (const page of [words, attacks.words]) expect(page).not.toMatch(/\w\.md\b/)
})
