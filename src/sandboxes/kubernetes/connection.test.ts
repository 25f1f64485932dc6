import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openInCluster, openSettings, parseKubeconfig, parseSettings } from './connection.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-kubeconfig-'))
})
afterAll(() => rm(folder, { recursive: true }))

const kubeconfig = (user: object, cluster: object = {}): string =>
  JSON.stringify({
    'current-context': 'here',
    contexts: [{ name: 'here', context: { cluster: 'one', user: 'me', namespace: 'trials' } }],
    clusters: [{ name: 'one', cluster: { server: 'https://10.0.0.1:6443', ...cluster } }],
    users: [{ name: 'me', user }],
  })

const encoded = (text: string): string => Buffer.from(text).toString('base64')

test('reads address, authority, certificate and namespace of the current context', async () => {
  const user = { 'client-certificate-data': encoded('cert'), 'client-key-data': encoded('key') }
  const text = kubeconfig(user, { 'certificate-authority-data': encoded('ca') })
  expect(await parseKubeconfig(text, folder)).toMatchObject({
    server: 'https://10.0.0.1:6443',
    ca: 'ca',
    cert: 'cert',
    key: 'key',
    namespace: 'trials',
  })
})

test('reads a token, and files relative to the kubeconfig', async () => {
  await writeFile(join(folder, 'ca.crt'), 'authority')
  const found = await parseKubeconfig(kubeconfig({ token: 'secret' }, { 'certificate-authority': 'ca.crt' }), folder)
  expect(found.ca).toBe('authority')
  expect(await found.token?.()).toBe('secret')
})

test.each([
  ['a login program', kubeconfig({ exec: { command: 'aws' } }), /runs a program to log in/],
  ['no TLS verification', kubeconfig({}, { 'insecure-skip-tls-verify': true }), /disables TLS verification/],
  ['an unknown context', '{"current-context": "other"}', /no context named "other"/],
  ['something else', 'token: [secret', /not a kubeconfig/],
])('refuses a kubeconfig with %s', async (_, text, message) => {
  await expect(parseKubeconfig(text, folder)).rejects.toThrow(message)
})

test('reads the service account of a pod', async () => {
  for (const [name, text] of Object.entries({ 'ca.crt': 'ca', token: 'first\n', namespace: 'trials' }))
    await writeFile(join(folder, name), text)
  const found = await openInCluster(folder)
  expect(found).toMatchObject({ server: 'https://kubernetes.default.svc', ca: 'ca', namespace: 'trials' })
  await writeFile(join(folder, 'token'), 'second\n')
  expect(await found.token?.()).toBe('second')
  await expect(openInCluster(join(folder, 'missing'))).rejects.toThrow(/No kubeconfig is set/)
})

test('opens the kubeconfig that the settings name, relative to them', async () => {
  await writeFile(join(folder, 'kubeconfig'), kubeconfig({ token: 'secret' }))
  await writeFile(join(folder, 'settings.yaml'), 'kubeconfig: kubeconfig\nhelperImage: node:24-bookworm-slim\n')
  const { settings, connection } = await openSettings(join(folder, 'settings.yaml'))
  expect(settings).toMatchObject({ helperImage: 'node:24-bookworm-slim', cpuRequest: 1, acceptReachable: [] })
  expect(connection.server).toBe('https://10.0.0.1:6443')
  await expect(openSettings(join(folder, 'other.yaml'))).rejects.toThrow(/cannot be read. Check ASSAY_KUBERNETES/)
})

test('names the wrong setting', () => {
  expect(() => parseSettings('helperImage: a\nnamespace: Wrong_Name')).toThrow(/namespace/)
  expect(() => parseSettings('helperImage: a\nunknown: 1')).toThrow(/unknown/)
})
