import { expect, test } from 'vitest'
import { ConfigError, readConfig } from './config.ts'
import { newKey } from './workspaces/key.ts'

test('without any setting the defaults hold', () => {
  expect(readConfig({})).toMatchObject({
    host: '127.0.0.1',
    port: 4000,
    credentialStorage: true,
    rateLimit: undefined,
    logLevel: 'info',
  })
  expect(readConfig({ ASSAY_DATA: '/data' }).blobs).toBe('file:/data/blobs')
  expect(readConfig({ ASSAY_PORT: '' }).port).toBe(4000)
})

test('decodes the header values of the trace collector and uses invalid escapes unchanged', () => {
  const headers = (value: string) =>
    readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector', OTEL_EXPORTER_OTLP_HEADERS: `x-key=${value}` })
      .tracing?.headers
  expect(headers('a%20b')).toEqual({ 'x-key': 'a b' })
  expect(headers('100%')).toEqual({ 'x-key': '100%' })
  expect(headers('%ff')).toEqual({ 'x-key': '%ff' })
})

test('model servers on the machine itself are for its owner, while the API listens on no other address', () => {
  const networks = (environment: Record<string, string>) => [...readConfig(environment).modelNetworks]
  expect(networks({})).toMatchObject([['local', [{ address: '127.0.0.0' }, { address: '::1' }]]])
  expect(networks({ ASSAY_HOST: '0.0.0.0' })).toEqual([])
  expect(networks({ ASSAY_MODEL_NETWORKS: 'off' })).toEqual([])
  expect(networks({ ASSAY_HOST: '0.0.0.0', ASSAY_MODEL_NETWORKS: 'Lab=10.0.0.0/8' })).toMatchObject([
    ['lab', [{ address: '10.0.0.0', prefixLength: 8 }]],
  ])
})

test.each([
  ['ASSAY_PORT', 'abc'],
  ['ASSAY_PORT', '65536'],
  ['ASSAY_PORT', '-1'],
  ['ASSAY_BASE_URL', 'ftp://x'],
  ['ASSAY_BASE_URL', 'nonsense'],
  ['DATABASE_URL', 'mysql://x'],
  ['ASSAY_BLOBS', '/no/scheme'],
  ['ASSAY_BLOBS', 'file:/proc/blobs'],
  ['ASSAY_DATA', '/proc/../sys/x'],
  ['ASSAY_REGISTRIES', 'samples,hub'],
  ['ASSAY_REGISTRIES', 'samples,samples'],
  ['ASSAY_REGISTRIES', 'samples,'],
  ['ASSAY_HARBOR_URL', 'harbor'],
  ['ASSAY_BOOTSTRAP_KEY', 'assay_weak'],
  ['ASSAY_OPERATOR_KEY', 'short'],
  ['ASSAY_OPERATOR_KEY', 'a'.repeat(40)],
  ['ASSAY_CREDENTIAL_STORAGE', 'maybe'],
  ['ASSAY_MODEL_NETWORKS', 'on'],
  ['ASSAY_MODEL_NETWORKS', 'local=nowhere'],
  ['ASSAY_MODEL_NETWORKS', 'local=10.0.0.0/8,'],
  ['ASSAY_RATE_LIMIT', '0'],
  ['ASSAY_WORKER_SLOTS', '0'],
  ['ASSAY_SANDBOXES', 'lokal'],
  ['ASSAY_SANDBOXES', 'local,'],
  ['ASSAY_BUILD_HOSTS', 'builds.example,'],
  ['ASSAY_BUILD_HOSTS', 'http://builds.example/'],
  ['ASSAY_BUILD_HOSTS', '10.0.0.0/33'],
  ['ASSAY_IMAGE_DISK_GB', '0'],
  ['ASSAY_LOG', 'loud'],
  ['ASSAY_GATEWAY_UPSTREAM_OPENAI', 'javascript:alert(1)'],
])('%s=%s stops the start with a sentence that names it', (name, value) => {
  expect(() => readConfig({ [name]: value })).toThrow(ConfigError)
  expect(() => readConfig({ [name]: value })).toThrow(new RegExp(`^${name} .*\\.$`))
})

test('every wrong setting is named at once, and no secret is repeated', () => {
  const read = () => readConfig({ ASSAY_PORT: 'x', ASSAY_OPERATOR_KEY: 'hunter2' })
  expect(read).toThrow(/ASSAY_PORT.*\n.*ASSAY_OPERATOR_KEY/)
  expect(read).not.toThrow(/hunter2/)
})

test('registries are read in their order', () => {
  expect(readConfig({}).registries.names).toEqual(['samples', 'harbor'])
  expect(
    readConfig({ ASSAY_REGISTRIES: 'dir:/srv/a b, https://x.example/registry.json ,harbor' }).registries.names,
  ).toEqual(['dir:/srv/a b', 'https://x.example/registry.json', 'harbor'])
})

test('keys and upstreams are read', () => {
  const key = newKey()
  const config = readConfig({ ASSAY_BOOTSTRAP_KEY: key, ASSAY_GATEWAY_UPSTREAM_OPENAI: 'http://127.0.0.1:9/' })
  expect(config.bootstrapKey).toBe(key)
  expect(config.upstreams).toEqual({ openai: 'http://127.0.0.1:9' })
})
