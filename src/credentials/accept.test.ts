import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createSshKey } from '../../test/support/ssh-key.ts'
import * as schema from './schema.ts'

const anthropic = { kind: 'model', provider: 'anthropic', name: 'Team key', secret: { apiKey: 'sk-ant' } } as const

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const create = (body: object) => app.call(schema.createCredential, { body: { ...anthropic, ...body } })

const longest = { apiKey: 'x'.repeat(65_536 - '{"apiKey":""}'.length) }
test('accepts a secret of 64 KiB', async () => {
  expect((await create({ secret: longest })).status).toBe(201)
})

test.each([
  ['an unknown provider', { provider: 'acme' }, ['/provider unknown_provider']],
  ['a provider of another kind', { kind: 'sandbox' }, ['/provider unknown_provider']],
  ['the reference', { provider: 'none', secret: {} }, ['/provider unknown_provider']],
  ['the local sandbox', { kind: 'sandbox', provider: 'local', secret: {} }, ['/provider unknown_provider']],
  ['an unknown kind', { kind: 'other' }, ['/kind invalid_value']],
  ['no name', { name: ' ' }, ['/name too_small']],
  ['a name that is too long', { name: 'x'.repeat(201) }, ['/name too_big']],
  ['an unknown field beside the secret', { hint: 'x' }, ['/hint unknown_field']],
  ['no object', { secret: 'sk-ant' }, ['/secret invalid_type']],
  ['a missing field', { secret: {} }, ['/secret/apiKey required']],
  ['an unknown field', { secret: { apiKey: 'k', 'a/b~': '' } }, ['/secret/a~1b~0 unknown_field']],
  ['a field that is no text', { secret: { apiKey: 5 } }, ['/secret/apiKey invalid_type']],
  ['an empty field', { secret: { apiKey: ' ' } }, ['/secret/apiKey invalid_format']],
  ['a key with a space in it', { secret: { apiKey: 'a b' } }, ['/secret/apiKey invalid_format']],
  ['a key with a line break in it', { secret: { apiKey: 'a\nx-evil: 1' } }, ['/secret/apiKey invalid_format']],
  ['a key that is not ASCII', { secret: { apiKey: 'schlüssel' } }, ['/secret/apiKey invalid_format']],
  ['more than 64 KiB', { secret: { apiKey: `${longest.apiKey}x` } }, ['/secret too_big']],
  [
    'several mistakes',
    { secret: { key: 'x', token: 'y' } },
    ['/secret/key unknown_field', '/secret/token unknown_field', '/secret/apiKey required'],
  ],
])('refuses %s', async (_, body, pointers) => {
  const answer = await create(body)
  expect(answer).toMatchObject({ status: 422, body: { code: 'invalid_request' } })
  expect(answer.body.errors.map((error: Record<string, string>) => `${error.pointer} ${error.code}`)).toEqual(pointers)
})

test.each([
  'engine.example.com',
  'ssh://engine.example.com',
  'unix:///var/run/docker.sock',
  'http://engine.example.com:2375',
  'tcp://127.0.0.1:2376',
  'tcp://0x7f.1:2376',
  'tcp://[::1]:2376',
  'tcp://localhost:2376',
  'tcp://169.254.169.254',
  'tcp://engine.example.com:22',
  'tcp://user@engine.example.com',
  'tcp://engine.example.com/path',
])('refuses the engine %s', async (host) => {
  const answer = await create({ kind: 'sandbox', provider: 'docker', secret: { host } })
  expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer: '/secret/host' }] } })
})

test.each(['localhost', '127.0.0.1', '10.0.0.1:8443', 'a/b', 'a@b', 'https://git.example.com', ''])(
  'refuses the code host "%s"',
  async (host) => {
    const answer = await create({ kind: 'code-host', provider: 'github', secret: { token: 't', host } })
    expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer: '/secret/host' }] } })
  },
)

const SSH_KEY_FRAME = '-----BEGIN OPENSSH PRIVATE KEY-----\n\n-----END OPENSSH PRIVATE KEY-----'
const KNOWN_HOSTS = 'git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJz4'

test('accepts an ssh key without a passphrase, and shows only its fingerprint', async () => {
  const { privateKey } = createSshKey()
  const answer = await create({
    kind: 'code-host',
    provider: 'ssh',
    secret: {
      privateKey,
      knownHosts: `# from ssh-keyscan\n${KNOWN_HOSTS}\n\n|1|F1E1K=|B2a= ecdsa-sha2-nistp256 AAAAE2Vj= x\n`,
    },
  })
  expect(answer).toMatchObject({ status: 201, body: { hint: expect.stringMatching(/^.{8}$/) } })
  expect(privateKey.replaceAll('\n', '')).not.toContain(answer.body.hint)
})

test.each([
  ['a key with a passphrase', createSshKey('secret').privateKey, KNOWN_HOSTS, '/secret/privateKey'],
  ['a key that is cut off', createSshKey().privateKey.slice(0, 120), KNOWN_HOSTS, '/secret/privateKey'],
  ['a key without content', SSH_KEY_FRAME, KNOWN_HOSTS, '/secret/privateKey'],
  [
    'a key of another format',
    '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----',
    KNOWN_HOSTS,
    '/secret/privateKey',
  ],
  [
    'host keys without a host',
    createSshKey().privateKey,
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJz4',
    '/secret/knownHosts',
  ],
  ['a certificate authority', createSshKey().privateKey, `@cert-authority *.${KNOWN_HOSTS}`, '/secret/knownHosts'],
  ['only a comment', createSshKey().privateKey, '# none', '/secret/knownHosts'],
])('refuses an ssh credential with %s', async (_, privateKey, knownHosts, pointer) => {
  const answer = await create({ kind: 'code-host', provider: 'ssh', secret: { privateKey, knownHosts } })
  expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer }] } })
})

test('rejects invalid certificates', async () => {
  const secret = { host: 'tcp://engine.example.com', ca: 'x', cert: 'y', key: 'z' }
  const answer = await create({ kind: 'sandbox', provider: 'docker', secret })
  expect(answer.body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
    '/secret/ca',
    '/secret/cert',
    '/secret/key',
  ])
})
