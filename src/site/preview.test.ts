import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { openReleaseLab } from '../../test/support/releases.ts'
import { previewReleasePage } from '../releases/schema.ts'

let app: TestApp

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local' })
})
afterAll(() => app[Symbol.asyncDispose]())

const SMALL = 'acme/small|mini|low'
const LARGE = 'acme/large|mini|high'

async function openLab() {
  const lab = await openReleaseLab(app)
  await lab.ran(
    { id: SMALL, cells: 'ppffff', micros: 1000, label: 'Small' },
    { id: LARGE, cells: 'pppppf', micros: 5000, label: '<script>Large' },
  )
  const preview = (query: Record<string, string> = {}, headers: Record<string, string> = {}) =>
    app.call(previewReleasePage, { params: lab.place, query, headers })
  const readPublic = () =>
    app.fetch(`/results/${lab.place.owner}/${lab.place.name}`, { headers: { accept: 'text/html' } })
  return { ...lab, preview, readPublic }
}

/** Returns a page without the facts that a release gets when it is stored, and without the target of links. */
const toComparable = (page: string, releaseId: string): string =>
  page
    .replaceAll(releaseId, 'preview')
    .replaceAll(/(\d{4}-\d\d-\d\d)T[\d:.]+Z/g, '$1')
    .replace(/\n<base target="_blank">/, '')

test('the preview is the page that publishing produces', async () => {
  const { preview, publishAll, readPublic } = await openLab()
  expect((await readPublic()).status).toBe(404)
  const { status, text } = await preview()
  expect(status).toBe(200)
  const { body: release } = await publishAll()
  const page = await readPublic()
  expect(toComparable(text, 'preview')).toBe(toComparable(page.text, release.releaseId))
})

test('a selection is previewed, also beside an older release', async () => {
  const { preview, publishAll, readPublic } = await openLab()
  const { body: first } = await publishAll()
  const { text } = await preview({ setting: SMALL })
  expect(text).toContain('Small')
  expect(text).not.toContain('&lt;script&gt;Large</strong>')
  expect(text).toContain(first.releaseId)
  const { body: second } = await publishAll({ settings: [SMALL] })
  expect(toComparable(text, 'preview')).toBe(toComparable((await readPublic()).text, second.releaseId))
})

test('the preview executes nothing, is framed only by this service and stays private', async () => {
  const { preview } = await openLab()
  const { headers, text } = await preview()
  const policy = headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'self'")
  expect(policy).not.toMatch(/script-src|unsafe/)
  expect(headers.get('cache-control')).toBe('private, no-cache')
  expect(text).not.toContain('<script>Large')
  const again = await preview({}, { 'if-none-match': headers.get('etag') ?? '' })
  expect(again.status).toBe(304)
})

test('an unknown setting is refused and an unknown repository is not found', async () => {
  const { preview, place } = await openLab()
  const refused = await preview({ setting: 'acme/none|mini|low' })
  expect([refused.status, refused.body.code]).toEqual([422, 'invalid_request'])
  const missing = await app.call(previewReleasePage, { params: { ...place, name: 'missing' } })
  expect(missing.status).toBe(404)
})
