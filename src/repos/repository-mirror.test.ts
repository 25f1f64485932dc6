import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { temporaryFolder } from '../../test/support/harbor/folders.ts'
import { commitFiles, type GitServer, startGitServer } from '../../test/support/harbor/git-server.ts'
import { createCredential } from '../credentials/credentials.ts'
import { openKeyring } from '../credentials/master-key.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { createWorkspace } from '../workspaces/workspaces.ts'
import { createGithubHost } from './github.ts'
import { openRepositoryMirror, type RepositoryMirrorDeps } from './repository-mirror.ts'

let database: TestDatabase
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let server: GitServer
let deps: RepositoryMirrorDeps
let repository: { workspaceId: string; credential_id: string }
let libraryCommit: string
beforeAll(async () => {
  database = await testDatabase()
  folder = await temporaryFolder()
  commitFiles(`${folder.path}/team/app.git`, [['a.py', 'a']])
  libraryCommit = commitFiles(`${folder.path}/team/library.git`, [['b.py', 'b']])
  server = await startGitServer(folder.path)
  const { db } = database
  const upstreams = { github: server.url }
  const outbound = createOutbound()
  deps = {
    db,
    keyring: await openKeyring({ db, dataFolder: folder.path }),
    environment: {},
    upstreams,
    outbound,
    codeHost: createGithubHost({ outbound, baseUrl: upstreams.github }),
    gitAllow: [],
    mirrors: { folder: `${folder.path}/mirrors` },
  }
  const { row } = await createWorkspace(db, { login: 'team', name: 'Team', kind: 'org' }, { actor: 'system' })
  const input = { kind: 'code-host', provider: 'github', name: 'c', secret: { token: 'made-up-token' } } as const
  const credential = await createCredential(deps, { workspaceId: row.id, actor: 'system' }, input)
  repository = { workspaceId: row.id, credential_id: credential.id }
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
})

const TOKEN = `Basic ${Buffer.from('x-access-token:made-up-token').toString('base64')}`

test.each([
  ['a public repository uses no credential for its submodules', 'public', undefined],
  ['a private repository uses its credential for submodules on the same host', 'private', TOKEN],
] as const)('%s', async (_, visibility, expected) => {
  const row = { ...repository, key: visibility === 'public' ? 1 : 2, owner: 'team', name: 'app', visibility }
  const options = { signal: new AbortController().signal }
  await using mirror = await openRepositoryMirror(deps, { ...row, source_kind: 'github', url: null }, options)
  expect(server.authorizations.get('/team/app.git/info/refs')).toBe(TOKEN)
  await using library = await mirror.openSubmodule('../library.git', libraryCommit)
  expect(library.tip).toBe(libraryCommit)
  expect(server.authorizations.get('/team/library.git/info/refs')).toBe(expected)
})
