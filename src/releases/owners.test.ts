import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../../test/support/app.ts'
import { openReleaseLab } from '../../test/support/releases.ts'
import { readResults } from '../results/schema.ts'
import { mayPublish } from './preview.ts'
import * as schema from './schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

async function twoSettings() {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/small|mini|low', cells: 'ppffff' }, { id: 'acme/large|mini|high', cells: 'pppppf' })
  return lab
}

test('a workspace publishes only under owners it may use', () => {
  const git = { source_kind: 'git' as const, host: '', owner: 'Lab' }
  const github = { ...git, source_kind: 'github' as const, host: 'github.com' }
  const own = { ...github, host: 'github.example.com' }
  const owners = new Map([['lab', 'acme']])
  const cases: [boolean, Parameters<typeof mayPublish>][] = [
    [true, [{ ...github, owner: 'other' }, 'anybody', { publicOwners: owners, isOnlyWorkspace: false }]],
    [true, [github, 'anybody', { publicOwners: undefined, isOnlyWorkspace: false }]],
    [false, [github, 'anybody', { publicOwners: owners, isOnlyWorkspace: false }]],
    [true, [github, 'acme', { publicOwners: owners, isOnlyWorkspace: false }]],
    [false, [own, 'anybody', { publicOwners: owners, isOnlyWorkspace: false }]],
    [true, [own, 'acme', { publicOwners: owners, isOnlyWorkspace: false }]],
    [false, [own, 'local', { publicOwners: undefined, isOnlyWorkspace: false }]],
    [true, [own, 'local', { publicOwners: undefined, isOnlyWorkspace: true }]],
    [true, [git, 'local', { publicOwners: undefined, isOnlyWorkspace: true }]],
    [false, [git, 'local', { publicOwners: undefined, isOnlyWorkspace: false }]],
    [true, [git, 'Acme', { publicOwners: owners, isOnlyWorkspace: false }]],
    [false, [git, 'local', { publicOwners: owners, isOnlyWorkspace: true }]],
    [false, [{ ...git, owner: 'other' }, 'acme', { publicOwners: owners, isOnlyWorkspace: false }]],
  ]
  for (const [may, asked] of cases) expect(mayPublish(...asked)).toBe(may)
})

describe('owners', () => {
  test('the lines of a verified owner and those it endorses are endorsed', async () => {
    const lab = await twoSettings()
    const { owner, name } = lab.place
    await lab.publishAll()
    const own = await app.otherWorkspace(owner)
    const params = { org: own.login, owner, name, publisher: 'local' }
    const endorse = () => app.call(schema.putEndorsement, { params, key: own.key })
    const endorsed = async () => (await app.call(readResults, { params: lab.place, key: null })).body.lines[0].endorsed
    expect(await endorse()).toMatchObject({ status: 403, body: { code: 'not_the_owner' } })
    const verify = (login: string) => app.call(schema.verifyWorkspace, { params: { login }, key: OPERATOR_KEY })
    expect(await verify(owner.toUpperCase())).toMatchObject({ status: 200, body: { login: owner } })
    expect((await verify('nobody')).status).toBe(404)
    expect(await endorse()).toMatchObject({ status: 200, body: { repository: `${owner}/${name}`, publisher: 'local' } })
    expect((await endorse()).status).toBe(200)
    expect(await endorsed()).toBe(true)
    expect((await app.call(schema.readEndorsement, { params, key: own.key })).status).toBe(200)
    expect(
      (await app.call(schema.putEndorsement, { params: { ...params, publisher: 'nobody' }, key: own.key })).status,
    ).toBe(404)
    expect((await app.call(schema.putEndorsement, { params: { ...params, org: 'local' } })).status).toBe(403)
    const unverify = () => app.call(schema.unverifyWorkspace, { params: { login: owner }, key: OPERATOR_KEY })
    expect((await unverify()).status).toBe(204)
    expect(await endorsed()).toBe(false)
    await verify(owner)
    expect(await endorsed()).toBe(true)
    const remove = () => app.call(schema.deleteEndorsement, { params, key: own.key })
    expect((await remove()).status).toBe(204)
    expect((await remove()).status).toBe(404)
    expect(await endorsed()).toBe(false)
    expect((await app.call(schema.readEndorsement, { params, key: own.key })).status).toBe(404)
  })

  test('a self-hosted code host does not prove ownership of a name', async () => {
    const lab = await twoSettings()
    await app.otherWorkspace('another')
    const from = (host: string) =>
      app.database.pool.query("update repositories set source_kind = 'github', url = null, host = $2 where key = $1", [
        lab.where.repository,
        host,
      ])
    await from('github.example.com')
    expect((await lab.preview()).blockers).toMatchObject([{ code: 'owner_not_assigned' }])
    await from('github.com')
    expect((await lab.preview()).blockers).toEqual([])
  })

  test('with several workspaces, plain git is published only under assigned owners', async () => {
    const lab = await twoSettings()
    await app.otherWorkspace('second')
    expect((await lab.preview()).blockers).toMatchObject([{ code: 'owner_not_assigned' }])
    expect(await lab.publishAll()).toMatchObject({ status: 422, body: { code: 'owner_not_assigned' } })
    await using assigned = await testApp(
      {
        ASSAY_PUBLIC_OWNERS: `x=y,${lab.place.owner.toUpperCase()}=Local`,
        ASSAY_CREDENTIAL_STORAGE: 'off',
      },
      app.database,
    )
    const own = await assigned.call(schema.previewRelease, { params: lab.place })
    expect(own.body.blockers).toEqual([])
  })
})
