import { expect, test } from 'vitest'
import type { ComposeService, Environment } from '../harbor/task.ts'
import { toEnvironmentSource, toServiceSource } from './environment.ts'

const lookup = { folder: '/task', variables: { TAG: '7' } }
const environment: Environment = {
  os: 'linux',
  folder: 'environment',
  image: null,
  dockerfile: 'environment/Dockerfile',
  compose: null,
  buildTimeoutSec: 600,
  resources: { cpus: null, memoryMb: null, storageMb: null, gpus: null, gpuTypes: null, tpu: null },
  network: { mode: 'no-network', hosts: [] },
  env: [],
  mcpServers: [],
  skillsDir: null,
  healthcheck: null,
  workdir: null,
}
const service: ComposeService = {
  name: 'main',
  image: null,
  build: null,
  command: null,
  entrypoint: null,
  env: [],
  user: null,
  workdir: null,
  hostname: null,
  aliases: [],
  dependsOn: [],
  healthcheck: null,
  mounts: [],
  network: 'default',
  readOnly: false,
  init: false,
  stopSignal: null,
  platform: null,
  resources: { cpus: null, memoryMb: null, pids: null, shmMb: null },
}
const withMain = (main: Partial<ComposeService>): Environment => ({
  ...environment,
  compose: { services: [{ ...service, ...main }], volumes: [] },
})
const dockerfile = {
  kind: 'dockerfile',
  context: '/task/environment',
  dockerfile: 'Dockerfile',
  target: null,
  args: {},
}
const build = {
  context: 'environment/db',
  dockerfile: 'my.Dockerfile',
  target: 'last',
  args: [{ name: 'V', value: ['v', { variable: 'TAG', fallback: null }] }],
}
const built = {
  kind: 'dockerfile',
  context: '/task/environment/db',
  dockerfile: 'my.Dockerfile',
  target: 'last',
  args: { V: 'v7' },
}

test.each([
  ['a Dockerfile', environment, dockerfile],
  ['a compose file that says nothing of main', withMain({ name: 'other' }), dockerfile],
  ['the image that Harbor built', withMain({ image: [{ variable: 'MAIN_IMAGE_NAME', fallback: null }] }), dockerfile],
  ['a build of the compose file', withMain({ build }), built],
  [
    'an image of the compose file',
    withMain({ image: ['a/b:', { variable: 'TAG', fallback: 'x' }] }),
    { kind: 'prebuilt', name: 'a/b:7', folder: null, workdir: null },
  ],
  [
    'an image, with files for its working folder',
    { ...environment, image: 'a/b', dockerfile: null, workdir: '/srv' },
    { kind: 'prebuilt', name: 'a/b', folder: '/task/environment', workdir: '/srv' },
  ],
  [
    'an image beside a Dockerfile, whose files are no files for the working folder',
    { ...environment, image: 'a/b' },
    { kind: 'prebuilt', name: 'a/b', folder: null, workdir: null },
  ],
])('%s', (_, from, source) => {
  expect(toEnvironmentSource(from, lookup)).toEqual(source)
})

test('an environment without a Dockerfile or image is rejected', () => {
  expect(() => toEnvironmentSource({ ...environment, dockerfile: null }, lookup)).toThrow(
    /neither a Dockerfile nor an image/,
  )
  expect(() => toServiceSource({ ...service, name: 'db' }, lookup)).toThrow(/service db has neither/)
  expect(() => toServiceSource({ ...service, build }, { folder: '/task', variables: {} })).toThrow(/value for TAG/)
})
