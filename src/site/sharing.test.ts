import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../../test/support/app.ts'
import { publishTwoSettings } from '../../test/support/releases.ts'
import { listenForChanges } from '../results/cache.ts'

let app: TestApp
let lab: Awaited<ReturnType<typeof publishTwoSettings>>
let path: string

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local', ASSAY_PUBLIC_URL: 'https://results.example' })
  lab = await publishTwoSettings(app)
  path = `/results/${lab.place.owner}/${lab.place.name}`
})
afterAll(() => app[Symbol.asyncDispose]())

test('publishing answers with the address of the page', () => {
  expect(lab.release.url).toBe(`https://results.example${path}`)
})

test('a page describes its release as a dataset, with files that exist', async () => {
  const { text } = await app.fetch(path)
  const [, json = ''] = /<script type="application\/ld\+json">([^<]*)<\/script>/.exec(text) ?? []
  const dataset = JSON.parse(json)
  expect(dataset).toMatchObject({ '@type': 'Dataset', version: lab.release.releaseId, url: lab.release.url })
  for (const { contentUrl } of dataset.distribution)
    expect((await app.fetch(contentUrl.replace('https://results.example', ''))).status, contentUrl).toBe(200)
})

test('the picture for links is a PNG of 1200 × 630 pixels', async () => {
  const [, image = ''] =
    /property="og:image" content="https:\/\/results\.example([^"]+)"/.exec((await app.fetch(path)).text) ?? []
  const response = await fetch(app.url + image)
  const bytes = Buffer.from(await response.arrayBuffer())
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/png'])
  expect([bytes.toString('latin1', 1, 4), bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual(['PNG', 1200, 630])
  expect((await app.fetch('/results/lab/nothing/image.png')).status).toBe(404)
})

describe('oEmbed', () => {
  const embed = (query: Record<string, string>) => app.fetch(`/oembed?${new URLSearchParams(query)}`)

  test('answers for a repository page with its chart, not wider than asked', async () => {
    const { body, headers } = await embed({ url: lab.release.url, maxwidth: '380' })
    expect(body).toMatchObject({ version: '1.0', type: 'rich', width: 380 })
    expect(body.html).toContain(`<img src="https://results.example/api/public${path}/chart.svg"`)
    expect(headers.get('access-control-allow-origin')).toBe('*')
    expect((await app.fetch(path)).text).toContain('type="application/json+oembed"')
  })

  test('knows no other address', async () => {
    for (const url of [
      '',
      'https://evil.example/results/a/b',
      'https://results.example/',
      `${lab.release.url}/../../x`,
    ])
      expect((await embed({ url })).status, url).toBe(404)
  })
})

test('robots and sitemap name the pages, and every page of the sitemap exists', async () => {
  expect((await app.fetch('/robots.txt')).text).toContain('Sitemap: https://results.example/sitemap.xml')
  const { text, headers } = await app.fetch('/sitemap.xml')
  expect(headers.get('content-type')).toBe('application/xml; charset=utf-8')
  const pages = [...text.matchAll(/<loc>https:\/\/results\.example([^<]+)<\/loc>/g)].map(([, page = '']) => page)
  expect(pages).toContain(path)
  expect(pages).toContain('/publishers/local')
  for (const page of pages) expect((await app.fetch(page)).status, page).toBe(200)
})

test('llms.txt describes the service, and every address in it exists', async () => {
  const { text, headers } = await app.fetch('/llms.txt')
  expect(headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(text).toMatch(/^# Assay\n\n> /)
  const [owner = '', name = ''] = path.split('/').slice(2)
  const addresses = [...text.matchAll(/\]\(https:\/\/results\.example([^)]+)\)/g)].map(([, address = '']) =>
    address.replace('{owner}', owner).replace('{name}', name),
  )
  expect(addresses).toHaveLength(5)
  for (const address of addresses) expect((await app.fetch(address)).status, address).toBe(200)
})

test('a page is rendered once, however often it is requested, and again after the next release', async () => {
  const { results: cache } = app.tools
  const connected = Promise.withResolvers<void>()
  const activate = () => {
    cache.activate()
    connected.resolve()
  }
  let onNotice = () => {}
  const invalidate: typeof cache.invalidate = (notice) => {
    cache.invalidate(notice)
    onNotice()
  }
  const listening = listenForChanges(app.database.url, { ...cache, activate, invalidate })
  const countRenderings = async () => {
    const { text } = await app.fetch('/metrics', { headers: { authorization: `Bearer ${OPERATOR_KEY}` } })
    return Number(/assay_pages_rendered_total\{page="showRepository"\} (\d+)/.exec(text)?.[1] ?? 0)
  }
  try {
    await connected.promise
    const before = await countRenderings()
    await Promise.all(Array.from({ length: 20 }, () => app.fetch(path)))
    expect(await countRenderings()).toBe(before + 1)
    await lab.ran({ id: 'acme/third|mini|low', cells: 'pppppp', label: 'Third' })
    const noticed = new Promise<void>((resolve) => {
      onNotice = resolve
    })
    await lab.publishAll()
    await noticed
    await Promise.all(Array.from({ length: 20 }, () => app.fetch(path)))
    expect(await countRenderings()).toBe(before + 2)
  } finally {
    await listening.close()
    cache.deactivate()
  }
})
