import { beforeAll, expect, test } from 'vitest'
import type { TestApp } from '../../test/support/app.ts'
import type { CodeHostServer } from '../../test/support/code-host.ts'
import {
  createReleaseClient,
  insertComparison,
  openReleaseLab,
  openSecondReleaseLab,
  startReleaseApp,
} from '../../test/support/releases.ts'
import { type ConnectRepositoryInput, connectRepository, removeRepository } from '../repos/schema.ts'
import { readHistory, readPublicRelease, readResults } from '../results/schema.ts'

let app: TestApp
let host: CodeHostServer
beforeAll(async () => {
  ;({ app, host } = await startReleaseApp())
})

const A = { id: 'acme/small|mini|low', cells: 'pppppp' }
type RepositoryName = { owner: string; name: string }

async function publishPlainGit() {
  const lab = await openReleaseLab(app)
  await lab.ran(A)
  const { body, status } = await lab.publishAll()
  expect(status).toBe(201)
  return { ...lab, releaseId: body.releaseId as string }
}

type Published = Awaited<ReturnType<typeof publishPlainGit>>

/** Moves the approved tasks to the repository that has the name now, with new results. */
async function moveResults({ place, where, runId }: Published) {
  const { pool } = app.database
  const { rows } = await pool.query(
    'select key from repositories where owner = $1 and name = $2 and removed_at is null',
    [place.owner, place.name],
  )
  await pool.query('update batches set repository = $1 where id = $2', [rows[0].key, runId.slice(6)])
  await insertComparison(pool, { ...where, repository: rows[0].key }, [A])
}

const connect = (params: RepositoryName, body: ConnectRepositoryInput) => app.call(connectRepository, { params, body })
const history = async (params: RepositoryName) => {
  const { status, body } = await app.call(readHistory, { params, key: null })
  return status === 200 ? body.releases.map(({ releaseId }: { releaseId: string }) => releaseId) : status
}
const lines = async (params: RepositoryName) => {
  const { status, body } = await app.call(readResults, { params, key: null })
  return status === 200
    ? body.lines.map(({ release }: { release: { releaseId: string } }) => release.releaseId)
    : status
}
const permalink = async (params: RepositoryName, releaseId: string) =>
  (await app.call(readPublicRelease, { params: { ...params, releaseId }, key: null })).status

test('an owner assigned to a workspace is refused to every other workspace, on GitHub too', async () => {
  const lab = await publishPlainGit()
  host.add(`lab/${lab.place.name}`)
  const other = await openSecondReleaseLab(app, { login: 'stranger', place: lab.place, digests: lab.digests }, [A])
  expect((await other.preview()).blockers).toMatchObject([{ code: 'owner_not_assigned' }, { code: 'name_taken' }])
  expect(await other.publishAll()).toMatchObject({ status: 422, body: { code: 'owner_not_assigned' } })
  expect(await lines(lab.place)).toEqual([lab.releaseId])
})

test('two code hosts never share a public name', async () => {
  const lab = await publishPlainGit()
  host.add(`lab/${lab.place.name}`)
  const keep = { params: lab.place, query: { withdraw: 'false' as const } }
  expect((await app.call(removeRepository, keep)).status).toBe(204)
  expect((await connect(lab.place, { source: { kind: 'github' } })).status).toBe(201)
  await moveResults(lab)
  const hosted = createReleaseClient(app, lab.place)
  expect((await hosted.preview()).blockers).toMatchObject([{ code: 'name_taken' }])
  expect(await hosted.publishAll()).toMatchObject({ status: 409, body: { code: 'name_taken' } })
  expect(await history(lab.place)).toEqual([lab.releaseId])

  expect((await lab.withdraw(lab.releaseId)).status).toBe(200)
  expect(await history(lab.place)).toEqual([lab.releaseId])
  const { status, body } = await hosted.publishAll()
  expect(status).toBe(201)
  expect(await lines(lab.place)).toEqual([body.releaseId])
  expect(await history(lab.place)).toEqual([body.releaseId])
  expect(await permalink(lab.place, body.releaseId)).toBe(200)
  expect(await permalink(lab.place, lab.releaseId)).toBe(404)
})

test('a name that two code hosts already share shows the one that published first', async () => {
  const [first, second] = [await publishPlainGit(), await publishPlainGit()]
  await app.database.pool.query(`update releases set source_kind = 'github', host = 'github.com' where id = $1`, [
    second.releaseId,
  ])
  await app.database.pool.query('update releases set name = $1 where id = $2', [first.place.name, second.releaseId])
  expect(await history(first.place)).toEqual([first.releaseId])
  expect(await permalink(first.place, second.releaseId)).toBe(404)
})

test('a published plain git repository gets a new id with another address', async () => {
  const lab = await publishPlainGit()
  const at = (url: string) => connect(lab.place, { source: { kind: 'git', url }, visibility: 'public' })
  const { body: before } = await at('https://git.example.org/demo.git')
  const moved = () => at('https://git.example.org/moved.git')
  expect(await moved()).toMatchObject({
    status: 409,
    body: { code: 'releases_public', releaseId: lab.releaseId },
  })
  expect((await lab.withdraw(lab.releaseId)).status).toBe(200)
  const { status, body } = await moved()
  expect(status).toBe(201)
  expect(body.id).not.toBe(before.id)
  expect(await moved()).toMatchObject({ status: 200, body: { id: body.id } })
  expect(await at('https://git.example.org/demo.git')).toMatchObject({ status: 201, body: { id: before.id } })
})

test('a plain git repository of which nothing was published keeps its id with another address', async () => {
  const place = { owner: 'lab', name: 'corrected' }
  const at = (url: string) => connect(place, { source: { kind: 'git', url }, visibility: 'public' })
  const { body } = await at('https://git.example.org/wrong.git')
  expect(await at('https://git.example.org/right.git')).toMatchObject({ status: 200, body: { id: body.id } })
})
