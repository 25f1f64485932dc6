import { expect, test } from 'vitest'
import { readTaskToml } from '../../test/support/harbor/small-task.ts'
import { normaliseHost } from './environment-config.ts'

test.each([
  ['example.com', 'example.com'],
  [' EXAMPLE.com. ', 'example.com'],
  ['*.example.com', '*.example.com'],
  ['localhost', 'localhost'],
  ['1.2.3.4', '1.2.3.4'],
  ['::1', '::1'],
  ['2001:DB8:0:0::1', '2001:db8::1'],
  ['::FFFF:1.2.3.4', '::ffff:102:304'],
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['1.2.3.4/32', '1.2.3.4/32'],
  ['2001:db8::/32', '2001:db8::/32'],
])('normalises host %j to %j', (text, host) => {
  expect(normaliseHost(text)).toBe(host)
})

test.each([
  '',
  '.',
  '*',
  '*.',
  '*.1.2.3.4',
  'a*b',
  'http://a',
  'a:80',
  '[::1]',
  'a_b',
  '-a',
  'a-',
  'a..b',
  'fe80::1%eth0',
  '10.1.0.0/8',
  '10.0.0.0/33',
  '1.2.3.4/',
  '10.0.0.0/8/8',
  'a/8',
  'é.example',
  'a'.repeat(64),
  `${'a.'.repeat(200)}a`,
])('rejects host %j', (text) => {
  expect(normaliseHost(text)).toBeUndefined()
})

test.each([
  ['', 'undeclared'],
  ['environment.allow_internet = true', 'public'],
  ['environment.allow_internet = false', 'no-network'],
  ['environment = { allow_internet = false, allowed_hosts = [] }', 'undeclared'],
  ['environment.network_mode = "public"', 'public'],
  ['environment = { network_mode = "no-network", allow_internet = true }', 'no-network'],
])('applies the environment network to all phases: %j is %s', async (toml, mode) => {
  const { task } = await readTaskToml(toml)
  const networks = [task.environment.network, task.steps[0].agent.network, task.steps[0].verifier.network]
  expect(networks.map((network) => network.mode)).toEqual([mode, mode, mode])
})

test('a phase without a network mode inherits that of its environment', async () => {
  const { task } = await readTaskToml(`agent.network_mode = "public"
[verifier]
environment_mode = "separate"
[verifier.environment]
docker_image = "a/b"
network_mode = "no-network"
`)
  expect(task.environment.network.mode).toBe('undeclared')
  expect(task.steps[0].agent.network.mode).toBe('public')
  expect(task.steps[0].verifier.network.mode).toBe('no-network')
})
