import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { openReleaseLab, publishTwoSettings } from '../../test/support/releases.ts'
import { listenForChanges } from '../results/cache.ts'
import { createProblemPages } from './routes.ts'

let app: TestApp

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local', ASSAY_PUBLIC_URL: 'https://results.example' })
})
afterAll(() => app[Symbol.asyncDispose]())

const A = 'acme/small|mini|low'

async function published() {
  const lab = await publishTwoSettings(app)
  const path = `/results/${lab.place.owner}/${lab.place.name}`
  return { ...lab, path, permalink: `${path}/releases/${lab.release.releaseId}` }
}

const BROWSER = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } }
const open = (path: string, headers: Record<string, string> = {}) =>
  app.fetch(path, { headers: { ...BROWSER.headers, ...headers } })

/** Removes tags, so that a sentence can be found whatever its markup. */
const toText = (page: string): string =>
  page
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('\u00a0', ' ')
    .replaceAll(/\s+/g, ' ')

describe('an instance without results', () => {
  test('explains itself with three commands', async () => {
    const { status, text, headers } = await open('/')
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(text).toContain('No results yet')
    for (const command of ['assay batches create', 'assay compare', 'assay releases publish'])
      expect(text).toContain(command)
  })
})

describe('pages', () => {
  test('the list shows a published repository, and search and filters select it', async () => {
    const { place, path } = await published()
    expect((await open('/')).text).toContain(`href="${path}"`)
    expect((await open(`/?q=${place.name}&provider=acme&harness=mini`)).text).toContain(`href="${path}"`)
    expect((await open('/?harness=other')).text).toContain('No result matches')
    expect((await open('/?q=%25_no+such')).text).toContain('No result matches')
    expect((await open('/?language=ruby')).text).toContain('No result matches')
  })

  test('a card shows the role and the interval of its pick, and cards from before intervals were stored still show', async () => {
    const { path, release } = await published()
    const card = async () => toText((await open(`/?q=${path.split('/').at(-1)}`)).text)
    expect(await card()).toMatch(/Most accurate too few tasks to recommend Large.*83 % \d+–\d+ of 6 tasks/)
    const { pool } = app.database
    const { rows } = await pool.query('select card from result_lines where release_id = $1', [release.releaseId])
    const old = rows[0].card.replaceAll(/,"ci95":\{[^}]*\}/g, '')
    expect(old).not.toBe(rows[0].card)
    await pool.query('update result_lines set card = $1 where release_id = $2', [old, release.releaseId])
    expect(await card()).toContain('83 % of 6 tasks')
  })

  test('the list is filtered by the language of most tasks, which releases of shell tasks do not have', async () => {
    const { path: unknown } = await published()
    const lab = await openReleaseLab(app, (task) => ({ [`environment/${task}.rs`]: '' }))
    await lab.ran({ id: A, cells: 'ppffff' })
    await lab.publishAll()
    const { text } = await open('/?language=rust')
    expect(text).toContain('<option value="rust" selected>Rust</option>')
    expect(text).toContain(`href="/results/lab/${lab.place.name}"`)
    expect(text).not.toContain(`href="${unknown}"`)
    expect((await open('/')).text).toContain(`href="${unknown}"`)
  })

  test('a repository page begins with the answer and links to every format', async () => {
    const { path, release, place } = await published()
    const { status, text } = await open(path)
    expect(status).toBe(200)
    expect(toText(text)).toContain(
      `On ${place.name}, Large with mini at high reasoning solved most: 83 % of 6 tasks for $0.005 each. That is too few tasks to recommend a setting.`,
    )
    expect(text).toContain(`<link rel="canonical" href="https://results.example${path}">`)
    for (const file of ['/results.csv', '/chart.svg', '/badge.svg', `/releases/${release.releaseId}`])
      expect(text).toContain(`href="/api/public${path}${file}"`)
    for (const href of text.matchAll(/(?:href|src)="(\/[^"]*)"/g)) {
      const { status: linked } = await open((href[1] ?? '').replaceAll('&amp;', '&'))
      expect(linked, href[1]).toBe(200)
    }
  })

  test('the chart says which differences can be detected, and which attempts the dot and the interval count', async () => {
    const { path } = await published()
    expect(toText((await open(path)).text)).toContain('6 tasks, 1 attempt each: ')
    const lab = await openReleaseLab(app)
    await lab.ran(
      { id: A, cells: 'ppffff,pppfff,ppffff' },
      { id: 'acme/large|mini|high', cells: 'pppppf,pppppf,pppppp' },
    )
    await lab.publishAll()
    const words = toText((await open(`/results/lab/${lab.place.name}`)).text)
    expect(words).toMatch(
      /6 tasks, 3 attempts each: enough to detect differences of about \d+ points between two settings, not smaller ones\. The dot counts the first attempt\. The interval uses all 3, so the dot need not be in its middle\./,
    )
    expect(words).toContain('cost per task, log scale, prices of the trials')
    expect(words).toContain('Prices: of the trials today')
    expect(words).toContain('Rank: range after correcting for all pairs of settings')
    expect(words).toContain('the percentage is how often that holds if the tasks were drawn again')
  })

  test('built-in harnesses are shown by name and others by id, and addresses keep the ids', async () => {
    const lab = await openReleaseLab(app)
    await lab.ran(
      { id: 'acme/a|codex|none', cells: 'pppppf', label: 'A' },
      { id: 'acme/b|constructor|low', cells: 'ppffff', label: 'B' },
    )
    await lab.publishAll()
    const path = `/results/lab/${lab.place.name}`
    const { text } = await open(path)
    expect(toText(text)).toContain('A with Codex and no reasoning solved most')
    expect(text).toContain('<option value="codex" >Codex</option>')
    expect(text).toContain('<option value="constructor" >constructor</option>')
    expect(text).toContain('href="/settings/acme/a%7Ccodex%7Cnone"')
    expect(text).toContain('<a class="quiet" href="/" aria-current="true">Results</a>')
  })

  test('sorting and filters are in the URL and need no script', async () => {
    const { path } = await published()
    const models = async (query: string) =>
      [...(await open(path + query)).text.matchAll(/class="model">(?:<a[^>]*>)?<bdi>([^<]*)/g)].map(
        ([, label]) => label,
      )
    expect(await models('?sort=solved')).toEqual(['Large', 'Small'])
    expect(await models('?sort=cost')).toEqual(['Small', 'Large'])
    expect(await models('?level=low')).toEqual(['Small'])
    expect(await models('?level=none')).toEqual([])
    expect(await models('?sort=nonsense&unknown=1')).toEqual(['Large', 'Small'])
  })

  test('a permalink keeps showing an old release and points to the newer one', async () => {
    const lab = await published()
    await lab.ran({ id: A, cells: '---p--' })
    const { body: newer } = await lab.publishAll()
    expect((await open(lab.permalink)).text).toContain(
      `There is a newer release: <a href="${lab.path}/releases/${newer.releaseId}">`,
    )
  })

  test('withdrawn results are gone (410) with the reason, and the permalink is marked', async () => {
    const lab = await published()
    await lab.withdraw(lab.release.releaseId, 'Two tasks were broken.')
    const gone = await open(lab.path)
    expect(gone.status).toBe(410)
    expect(gone.text).toContain('Two tasks were broken.')
    expect(gone.text).toContain(`href="${lab.permalink}"`)
    const marked = await open(lab.permalink)
    expect(marked.status).toBe(200)
    expect(marked.text).toContain('<strong>Withdrawn</strong>')
    expect(toText(marked.text)).toContain('There is no valid release of this repository.')
    expect(marked.text).toContain('<span class="chip">withdrawn</span>')
    expect(marked.text).not.toContain('<span class="chip gold">frontier</span>')
    expect(marked.text).not.toContain('class="answer"')
    expect(marked.text).not.toContain('class="picks"')
    expect((await app.fetch(lab.path)).body).toMatchObject({ code: 'results_withdrawn', status: 410 })
    const { body: newer } = await lab.publishAll()
    expect((await open(lab.permalink)).text).toContain(
      `Newest valid release: <a href="${lab.path}/releases/${newer.releaseId}">`,
    )
  })

  test('unknown paths answer a page to browsers and a problem to programs; the API always answers JSON', async () => {
    const { path } = await published()
    for (const missing of ['/nothing', '/results/lab/nothing', `${path}?publisher=nobody`, '/results/%3Cscript%3E/x']) {
      const page = await open(missing)
      expect(page.status, missing).toBe(404)
      expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(page.text).toContain('all results')
      expect((await app.fetch(missing)).body, missing).toMatchObject({ code: 'not_found' })
    }
    expect((await open('/api/public/results/lab/nothing')).body).toMatchObject({ code: 'not_found' })
    expect((await open(`/api/public${path}`)).body.lines).toHaveLength(1)
    expect((await app.fetch(path, { method: 'POST' })).status).toBe(405)
  })
})

test('an error of the service is a page that names the request to report', () => {
  const { text, headers } = createProblemPages(() => 'https://results.example')({
    status: 500,
    title: 'Internal error',
    detail: 'Something failed.',
    code: 'internal_error',
    requestId: 'request-7',
  })
  expect(toText(text)).toContain(
    'This is an error of the service. Try again. If the error persists, send the request id below',
  )
  expect(toText(text)).toContain('Request request-7')
  expect(headers['cache-control']).toBe('no-store')
})

test('pages and assets have a strict policy, an ETag, and are compressed', async () => {
  const { path, permalink } = await published()
  const asset = (await open('/')).text.match(/\/assets\/site\.css\?v=[\w-]+/)?.[0] ?? ''
  for (const at of ['/', path, permalink, asset, '/assets/site.js']) {
    const first = await open(at)
    const policy = first.headers.get('content-security-policy') ?? ''
    expect(policy, at).toContain("default-src 'none'")
    expect(policy).toContain("script-src 'self'")
    expect(policy).not.toContain('unsafe')
    const etag = first.headers.get('etag') ?? ''
    const again = await open(at, { 'if-none-match': etag })
    expect([again.status, again.text], at).toEqual([304, ''])
    expect((await open(at, { 'accept-encoding': 'br' })).headers.get('content-encoding'), at).toBe('br')
    expect(first.headers.get('access-control-allow-origin')).toBeNull()
  }
})

test('every font that the stylesheet names is served by this service, and no other', async () => {
  const { text } = await open('/assets/site.css')
  const fonts = [...text.matchAll(/url\("([^"]+)"\)/g)].map(([, url]) => url ?? '')
  expect(fonts).toHaveLength(3)
  for (const font of fonts) {
    const { status, headers } = await open(font)
    expect([status, headers.get('content-type')], font).toEqual([200, 'font/woff2'])
    expect(headers.get('cache-control')).toContain('immutable')
  }
  expect((await open('/assets/fonts/other.woff2')).status).toBe(404)
})

test('a page is rendered once per release: a cached page changes when the next release is published', async () => {
  const { cache } = { cache: app.tools.results }
  const connected = Promise.withResolvers<void>()
  const activate = () => {
    cache.activate()
    connected.resolve()
  }
  const listening = listenForChanges(app.database.url, { ...cache, activate })
  try {
    await connected.promise
    const lab = await published()
    const first = await open(lab.path)
    expect((await open(lab.path)).headers.get('etag')).toBe(first.headers.get('etag'))
    expect(cache.find(lab.path, 'identity')?.operation).toBe('showRepository')
    await lab.ran({ id: 'acme/third|mini|low', cells: 'pppppp', label: 'Third' })
    await lab.publishAll()
    expect((await open(lab.path)).text).toContain('Third')
  } finally {
    await listening.close()
    cache.deactivate()
  }
})

describe('untrusted text', () => {
  const HOSTILE = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '\u202egnp.exe\u202c\u2066\u200b',
    '\u001b[31mred\u001b]8;;https://evil.example\u0007',
    'x'.repeat(10_000),
    'مرحبا بالعالم',
    '👩‍👩‍👧‍👦'.repeat(50),
    '</title></svg></textarea>{{7*7}}',
    '\ud800 lone',
  ]
  /** Strings that a publisher cannot choose, or that the contract restricts to a pattern. */
  const FIXED = new Set(['releaseId', 'releasedAt', 'fullName', 'login', 'kind', 'at', 'from', 'to', 'roles'])

  /** Empties attribute values, so that only names of attributes and text are left. */
  const removeValues = (page: string): string => page.replaceAll(/"[^"]*"/g, '""')

  /** Removes the description for search engines, which is data and no script. It must not contain a tag. */
  const removeData = (page: string): string => page.replace(/<script type="application\/ld\+json">[^<]*<\/script>/, '')

  function poison(value: unknown, text: string, field = ''): unknown {
    if (typeof value === 'string') return FIXED.has(field) ? value : text
    if (Array.isArray(value)) return value.map((each) => poison(each, text, field))
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, poison(each, text, key)]))
  }

  test.each(HOSTILE.map((text, index) => [index, text] as const))(
    'text %i in every field is escaped and executes nothing',
    async (_, text) => {
      const { path, permalink, release, where } = await published()
      const { pool } = app.database
      const { rows } = await pool.query('select line, card from result_lines where release_id = $1', [
        release.releaseId,
      ])
      const stored = text.toWellFormed()
      const inQuery = encodeURIComponent(stored.slice(0, 150).toWellFormed())
      await pool.query('update result_lines set line = $1, card = $2 where repository = $3', [
        JSON.stringify(poison(JSON.parse(rows[0].line), stored)),
        JSON.stringify(poison(JSON.parse(rows[0].card), stored)),
        where.repository,
      ])
      const { rows: documents } = await pool.query('select document from releases where id = $1', [release.releaseId])
      await pool.query('update releases set document = $1 where id = $2', [
        JSON.stringify(poison(JSON.parse(documents[0].document), stored)),
        release.releaseId,
      ])
      for (const at of [
        path,
        permalink,
        '/',
        `/?q=${inQuery}`,
        `${path}?harness=${inQuery}`,
        `${path}?publisher=${inQuery}`,
      ]) {
        const { text: whole, status } = await open(at)
        const page = removeData(whole)
        expect([200, 404], at).toContain(status)
        expect([...page.matchAll(/<script/g)]).toHaveLength(1)
        expect(removeValues(page).match(/<img|<[^>]*\son\w+\s*=|\sstyle=|javascript:/i)?.[0]).toBeUndefined()
        expect(page.replaceAll('\n', '').match(/[\p{Cc}\p{Bidi_Control}\u{200b}]/u)?.index).toBeUndefined()
        expect([...page.matchAll(/<\/title>/g)].length).toBe([...page.matchAll(/<title>/g)].length)
        expect(page.includes('x'.repeat(1001)), at).toBe(false)
      }
    },
  )

  test('the reason of a withdrawal is escaped', async () => {
    const lab = await published()
    await lab.withdraw(lab.release.releaseId, '<script>alert(1)</script>\u202e')
    for (const at of [lab.path, lab.permalink]) {
      const text = removeData((await open(at)).text)
      expect(text).toContain('&lt;script&gt;alert(1)')
      expect(text).not.toContain('\u202e')
      expect([...text.matchAll(/<script/g)]).toHaveLength(1)
    }
  })
})
