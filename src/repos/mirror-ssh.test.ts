import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { git, writeHistory } from '../../test/support/histories.ts'
import { hasPart } from '../../test/support/parts.ts'
import { type MirrorOutcome, mirrorBySsh, SSH_PORT } from '../../test/support/ssh-mirrors.ts'

const HOST = 'git.example.org'
const URL = `ssh://root@${HOST}:${SSH_PORT}/srv/demo.git`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-ssh-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function createKey(name: string): Promise<{ privateKey: string; publicKey: string }> {
  const file = join(folder, name)
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file])
  return { privateKey: (await readFile(file, 'utf8')).trim(), publicKey: await readFile(`${file}.pub`, 'utf8') }
}

test.runIf(hasPart('bwrap') && hasPart('debootstrap'))(
  'a repository is mirrored by ssh with the key of its credential, from a server with a known host key only',
  { timeout: 600_000 },
  async () => {
    const [host, user, stranger] = [await createKey('host-key'), await createKey('user-key'), await createKey('other')]
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
