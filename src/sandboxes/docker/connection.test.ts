import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { baseImages, type Dockerd, startDockerd } from '../../../test/support/dockerd.ts'
import { baseImage } from '../../../test/support/sandboxes/docker-subject.ts'
import { plainSpec } from '../../../test/support/sandboxes/plain-spec.ts'
import { createLog } from '../../platform/log.ts'
import { createDockerProvider } from '../docker.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { openSandboxProviders } from '../sandboxes.ts'
import { buildSshArgs, type DockerConnection, parseDockerHost, type TlsSecret } from './connection.ts'

const run = promisify(execFile)

let folder: string
let dockerd: Dockerd
let port: number

async function openssl(...args: string[]): Promise<void> {
  await run('openssl', args, { cwd: folder })
}

/** An authority with a certificate for the engine and one for us. */
async function makeCertificates(authority: string): Promise<void> {
  const key = ['-newkey', 'rsa:2048', '-nodes', '-days', '2']
  await openssl(
    'req',
    '-x509',
    ...key,
    '-keyout',
    `${authority}-key.pem`,
    '-out',
    `${authority}.pem`,
    '-subj',
    '/CN=test',
  )
  for (const [name, usage] of [
    ['server', 'serverAuth'],
    ['client', 'clientAuth'],
  ]) {
    const file = `${authority}-${name}`
    await writeFile(join(folder, `${file}.ext`), `subjectAltName=IP:127.0.0.1\nextendedKeyUsage=${usage}\n`)
    await openssl(
      'req',
      ...key.slice(0, 3),
      '-keyout',
      `${file}-key.pem`,
      '-out',
      `${file}.csr`,
      '-subj',
      `/CN=${name}`,
    )
    await openssl(
      ...['x509', '-req', '-in', `${file}.csr`, '-CA', `${authority}.pem`, '-CAkey', `${authority}-key.pem`],
      ...['-CAcreateserial', '-days', '2', '-extfile', `${file}.ext`, '-out', `${file}.pem`],
    )
  }
}

async function secretOf(authority: string, signer = authority): Promise<TlsSecret> {
  const read = (name: string) => readFile(join(folder, name), 'utf8')
  return {
    ca: await read(`${authority}.pem`),
    cert: await read(`${signer}-client.pem`),
    key: await read(`${signer}-client-key.pem`),
  }
}

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-tls-'))
  await makeCertificates('ours')
  await makeCertificates('theirs')
  port = await freePort()
  const file = (name: string) => join(folder, name)
  const certificates = [
    '--tlscacert',
    file('ours.pem'),
    '--tlscert',
    file('ours-server.pem'),
    '--tlskey',
    file('ours-server-key.pem'),
  ]
  const args = ['--host', `tcp://127.0.0.1:${port}`, '--tlsverify', ...certificates]
  dockerd = await startDockerd({ args, images: await baseImages() })
}, 600_000)

afterAll(async () => {
  await dockerd[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

const providerAt = (connection: DockerConnection) =>
  createDockerProvider({ connection, installation: 'tls', dataFolder: folder, log: createLog('silent') })

test('an engine behind TLS runs sandboxes, with their input and output', { timeout: 60_000 }, async () => {
  const provider = providerAt(parseDockerHost(`tcp://127.0.0.1:${port}`, await secretOf('ours')))
  expect(await provider.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  const spec = plainSpec(await baseImage(provider), ['sh', '-c', 'cat; exit 3'], join(folder, 'output'))
  const sandbox = await provider.start({ ...spec, input: 'through and back' })
  expect((await sandbox.exited).code).toBe(3)
  expect(await readFile(join(folder, 'output'), 'utf8')).toBe('through and back')
  await sandbox.remove()
})

test.each([
  ['whose certificate is another’s', 'ours', 'theirs'],
  ['that is not whom we trust', 'theirs', 'ours'],
])('an engine is not used by one %s', async (_who, authority, signer) => {
  const connection = parseDockerHost(`tcp://127.0.0.1:${port}`, await secretOf(authority, signer))
  await expect(providerAt(connection).selfTest()).rejects.toThrow(SandboxUnavailable)
  await expect(providerAt(connection).selfTest()).rejects.toThrow('are its certificates right')
})

test('the certificates of DOCKER_CERT_PATH open the engine of this machine', async () => {
  const files = { ca: 'ca.pem', cert: 'cert.pem', key: 'key.pem' }
  const secret = await secretOf('ours')
  for (const name of ['ca', 'cert', 'key'] as const) await writeFile(join(folder, files[name]), secret[name] ?? '')
  const dockerHost = `tcp://127.0.0.1:${port}`
  const options = { dataFolder: folder, allowHostBase: false, dockerHost, log: createLog('silent') }
  const open = (dockerCertificates: string) =>
    openSandboxProviders(['docker'], { ...options, dockerCertificates }).find('docker')
  expect(await open(folder)?.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  await expect(open(join(folder, 'none'))?.selfTest()).rejects.toThrow('ca.pem cannot be read')
})

test('a stored credential is used instead of the engine of this machine, and only at a public host', async () => {
  const providers = openSandboxProviders(['docker'], {
    dataFolder: folder,
    allowHostBase: false,
    dockerHost: `unix://${dockerd.socket}`,
    log: createLog('silent'),
  })
  expect(await providers.find('docker', {})?.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  const stored = (host: string) => providers.find('docker', { host, ca: 'x' })
  expect(stored('tcp://engine.invalid:2376')).toBe(stored('tcp://engine.invalid:2376'))
  await expect(stored('tcp://engine.invalid:2376')?.selfTest()).rejects.toThrow(SandboxUnavailable)
  for (const host of [`tcp://127.0.0.1:${port}`, 'tcp://[::1]:2376', `unix://${dockerd.socket}`, 'ssh://root@host'])
    await expect(stored(host)?.selfTest()).rejects.toThrow('of a public host')
  await expect(stored(`tcp://localhost:${port}`)?.selfTest()).rejects.toThrow(SandboxUnavailable)
})

test('without TLS the same engine is not reached', async () => {
  const connection = parseDockerHost(`tcp://127.0.0.1:${port}`)
  await expect(providerAt(connection).selfTest()).rejects.toThrow(SandboxUnavailable)
})

test('reports an unreachable engine as unavailable, with the fix', async () => {
  const selfTest = providerAt({ kind: 'unix', path: '/no/such.sock' }).selfTest()
  await expect(selfTest).rejects.toThrow(SandboxUnavailable)
  await expect(selfTest).rejects.toThrow(/may this user open \/no\/such\.sock/)
})

test('an engine that is started later is found then', { timeout: 60_000 }, async () => {
  const socket = join(folder, 'later.sock')
  const provider = providerAt({ kind: 'unix', path: socket })
  await expect(provider.selfTest()).rejects.toThrow(SandboxUnavailable)
  await run('ln', ['-s', dockerd.socket, socket])
  expect(await provider.selfTest()).toMatchObject({ networks: true })
})

test.each([
  [undefined, { kind: 'unix', path: '/var/run/docker.sock' }],
  ['unix:///run/user/1000/docker.sock', { kind: 'unix', path: '/run/user/1000/docker.sock' }],
  ['tcp://10.0.0.5', { kind: 'tcp', host: '10.0.0.5', port: 2375, tls: null }],
  ['tcp://engine:99', { kind: 'tcp', host: 'engine', port: 99, tls: null }],
  ['ssh://me@engine:2222', { kind: 'ssh', destination: 'me@engine', port: 2222 }],
  ['ssh://engine', { kind: 'ssh', destination: 'engine', port: null }],
])('DOCKER_HOST %s is understood', (text, connection) => {
  expect(parseDockerHost(text)).toMatchObject(connection)
})

test.each(['engine:2375', 'http://engine', 'ssh://', 'npipe:////./pipe/docker', 'tcp:'])('%s is refused', (text) => {
  expect(() => parseDockerHost(text)).toThrow(SandboxUnavailable)
})

test('an engine behind ssh is reached through its input and output', { timeout: 60_000 }, async () => {
  // Acts as sshd: runs the words after the destination.
  const script = `#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nDOCKER_HOST=unix://${dockerd.socket} exec "$@"\n`
  await writeFile(join(folder, 'ssh'), script, { mode: 0o755 })
  const { PATH } = process.env
  process.env.PATH = `${folder}:${PATH}`
  try {
    const provider = providerAt(parseDockerHost('ssh://me@engine'))
    expect(await provider.selfTest()).toMatchObject({ isolation: 'docker:runc' })
    expect((await baseImage(provider)).digest).toMatch(/^sha256:/)
  } finally {
    process.env.PATH = PATH
  }
})

test('ssh asks no questions, and takes no destination for an option', () => {
  expect(buildSshArgs({ destination: '-oProxyCommand=evil', port: 22 }).join(' ')).toBe(
    '-o BatchMode=yes -o ConnectTimeout=30 -T -p 22 -- -oProxyCommand=evil docker system dial-stdio',
  )
})
