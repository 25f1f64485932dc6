import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { git, writeHistory } from '../../test/support/histories.ts'
import { hasPart } from '../../test/support/parts.ts'
import { createSshKey } from '../../test/support/ssh-key.ts'
import { type MirrorOutcome, mirrorBySsh, SSH_PORT } from '../../test/support/ssh-mirrors.ts'
import { previewBatch } from '../batches/schema.ts'
import { createCredential } from '../credentials/schema.ts'
import { connectRepository } from './schema.ts'

const HOST = 'git.example.org'
const URL = `ssh://root@${HOST}:${SSH_PORT}/srv/demo.git`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-ssh-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test.runIf(hasPart('bwrap') && hasPart('debootstrap'))(
  'a repository is mirrored by ssh with the key of its credential, from a server with a known host key only',
  { timeout: 600_000 },
  async () => {
    const [host, user, stranger] = [createSshKey(), createSshKey(), createSshKey()]
    await writeFile(join(folder, 'host-key'), host.privateKey, { mode: 0o600 })
    await writeFile(join(folder, 'user-key.pub'), user.publicKey)
    await writeHistory(join(folder, 'demo.git'), [{ message: 'start', files: { 'a.py': 'a\n' } }])
    await git(join(folder, 'demo.git'), ['config', 'uploadpack.allowFilter', 'true'])
    const knownHosts = `[${HOST}]:${SSH_PORT} ${host.publicKey}`
    const wrongHosts = `[${HOST}]:${SSH_PORT} ${stranger.publicKey}`
    const otherHosts = `git.example.com ${host.publicKey}`
    const { privateKey } = user
    const outcomes = await mirrorBySsh(folder, [
      { url: URL, sshKey: { privateKey, knownHosts } },
      { url: URL, sshKey: { privateKey: privateKey.replaceAll('\n', '\r\n'), knownHosts } },
      { url: URL, sshKey: { privateKey: stranger.privateKey, knownHosts } },
      { url: URL, sshKey: { privateKey, knownHosts: wrongHosts } },
      { url: URL, sshKey: { privateKey, knownHosts: otherHosts } },
      { url: URL.replace('demo', 'none'), sshKey: { privateKey, knownHosts } },
      { url: URL },
    ])
    const tip = await git(join(folder, 'demo.git'), ['rev-parse', 'main'])
    const noAccess = { error: expect.stringContaining('does not give access') }
    const unknownHost = { error: expect.stringContaining('host key') }
    expect(outcomes).toEqual<MirrorOutcome[]>([
      { tip },
      { tip },
      noAccess,
      unknownHost,
      unknownHost,
      noAccess,
      { error: expect.stringContaining('needs a code-host credential of the provider ssh') },
    ])
  },
)

test('a repository at an ssh address is read with the ssh credential that it was connected with', async () => {
  await using app = await testApp()
  const params = { owner: 'lab', name: 'demo' }
  // The name cannot be resolved: what follows the check of the credential is not reached.
  const source = { kind: 'git', url: 'git@git.example.invalid:lab/demo.git' } as const
  const { privateKey, publicKey } = createSshKey()
  const secret = { privateKey, knownHosts: `git.example.invalid ${publicKey}` }
  const stored = await app.call(createCredential, {
    body: { kind: 'code-host', provider: 'ssh', name: 'deploy', secret },
  })
  const credentialId = stored.body.id
  const preview = async () => (await app.call(previewBatch, { params })).body.detail

  await app.call(connectRepository, { params, body: { source } })
  expect(await preview()).toContain('needs a code-host credential of the provider ssh')
  await app.call(connectRepository, { params, body: { source, credentialId } })
  expect(await preview()).toContain('does not have a public address')

  const hosted = { source: { kind: 'github' as const }, credentialId }
  const refused = await app.call(connectRepository, { params: { ...params, name: 'other' }, body: hosted })
  expect(refused).toMatchObject({ status: 422, body: { errors: [{ pointer: '/credentialId' }] } })
})
