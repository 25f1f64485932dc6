import { afterAll, beforeAll, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../test/support/app.ts'
import { assay, hasTerminal, onTerminal } from '../test/support/assay-command.ts'
import { openReleaseLab } from '../test/support/releases.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })

test('results are previewed, published, listed and withdrawn', async () => {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' }, { id: 'acme/b|mini|low', cells: 'ppppff', micros: null })
  const repo = ['--repo', `${lab.place.owner}/${lab.place.name}`]
  const preview = await run('releases', 'preview', ...repo)
  expect(preview.out).toMatch(/acme\/a\|mini\|low +3\/6 +50 % \(\d+–\d+\) +\$0.001 +yes +yes/)
  expect(preview.out).toMatch(/acme\/b\|mini\|low .*no: its cost is not known/)
  const [, fingerprint = ''] = /Fingerprint: (\w+)/.exec(preview.err) ?? []

  expect((await run('releases', 'publish', ...repo, '--fingerprint', 'old')).code).toBe(2)
  const refused = await run('releases', 'publish', ...repo, '--setting', 'acme/a|mini|low', 'acme/b|mini|low')
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('cost_unknown')])
  const published = await run('releases', 'publish', ...repo, '--fingerprint', fingerprint, '--publish-tasks')
  expect([published.code, published.err]).toEqual([0, expect.stringContaining('new release')])
  const [url = ''] = /http\S+/.exec(published.err) ?? []
  expect(await (await fetch(url)).text()).toContain(lab.place.name)
  const id = published.out.trim()
  const again = await run('releases', 'publish', ...repo, '--json')
  expect(JSON.parse(again.out).releaseId).toBe(id)
  expect((await run('releases', 'list', ...repo)).out).toMatch(new RegExp(`${id} .* 6 +1 +shown`))

  expect((await run('releases', 'withdraw', id, ...repo)).code).toBe(2)
  expect((await run('releases', 'withdraw', 'no-id', ...repo, '--reason', 'x')).code).toBe(2)
  expect((await run('releases', 'withdraw', id, ...repo, '--reason', 'A broken task.')).code).toBe(0)
  expect((await run('releases', 'list', ...repo)).out).toContain('withdrawn: A broken task.')
})

test.runIf(hasTerminal)(
  'publishing shows what becomes public and asks on a terminal; no publishes nothing',
  async () => {
    const lab = await openReleaseLab(app)
    await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' })
    const repo = ['--repo', `${lab.place.owner}/${lab.place.name}`]
    const env = { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey }
    let isAnswered = false
    const { out, code } = await onTerminal(['releases', 'publish', ...repo], env, (shown) => {
      if (isAnswered || !shown.includes('Publish these results')) return undefined
      isAnswered = true
      return 'n'
    })
    expect([code, out]).toEqual([
      130,
      expect.stringContaining(`1 setting of ${lab.place.owner}/${lab.place.name} on 6 tasks`),
    ])
    expect(JSON.parse((await run('releases', 'list', ...repo, '--json')).out).releases).toEqual([])
    expect((await onTerminal(['releases', 'publish', ...repo, '--yes'], env, () => undefined)).code).toBe(0)
  },
)

test('a repository with a public release is removed with --withdraw or --keep-public', async () => {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' })
  const name = `${lab.place.owner}/${lab.place.name}`
  const id = (await run('releases', 'publish', '--repo', name)).out.trim()
  const refused = await run('repos', 'remove', name)
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('withdraw')])
  expect((await run('repos', 'remove', name, '--withdraw', '--keep-public')).code).toBe(2)
  expect((await run('repos', 'remove', name, '--keep-public')).code).toBe(0)
  expect((await run('releases', 'list', '--repo', name)).out).toContain('shown')
  expect((await run('releases', 'withdraw', id, '--repo', name, '--reason', 'Old.')).code).toBe(0)
  expect((await run('releases', 'list', '--repo', name)).out).toContain('withdrawn: Old.')
})

test('the operator verifies a workspace and removes the verification', async () => {
  const asOperator = (...args: string[]) =>
    assay(args, { env: { ASSAY_URL: app.url, ASSAY_OPERATOR_KEY: OPERATOR_KEY } })
  const verified = await asOperator('orgs', 'verify', 'local', '--json')
  expect(JSON.parse(verified.out)).toMatchObject({ login: 'local' })
  expect((await asOperator('orgs', 'verify', 'local', '--undo')).err).toContain('no longer verified')
  expect((await asOperator('orgs', 'verify', 'nobody')).code).toBe(1)
})
