import { expect, test } from 'vitest'
import { TOML_BYTES_MAX } from './limits.ts'
import { readDeclaredMemoryMb } from './read-task.ts'
import { createMemorySource } from './source.ts'

const memoryOf = (toml: string) => readDeclaredMemoryMb(createMemorySource('task', [['task.toml', toml]]))

test.each([
  ['[environment]\nmemory_mb = 512', 512],
  ['[environment]\nmemory = "2G"', 2048],
  ['schema_version = "1.0"', 2048],
  ['schema_version = "1.4"', null],
  ['[environment]\nmemory_mb = -1', null],
  ['[environment]\nmemory_mb = "much"', null],
  ['environment = 5', null],
  ['[environment', null],
  ['\ud800', null],
  [`# ${'x'.repeat(TOML_BYTES_MAX)}\n[environment]\nmemory_mb = 512`, null],
])('%j', async (toml, memoryMb) => {
  expect(await memoryOf(toml)).toBe(memoryMb)
})

test('returns null without task.toml', async () => {
  expect(await readDeclaredMemoryMb(createMemorySource('task', []))).toBeNull()
})

const serviceOf = (name: string, more = '') => `  ${name}:\n    image: debian\n    command: ["true"]\n${more}`

test.each([
  ['a service that declares nothing counts as much as a task that declares nothing', [serviceOf('a')], 512 + 2048],
  ['each service counts', [serviceOf('a', '    mem_limit: 256m\n'), serviceOf('b')], 512 + 256 + 2048],
  ['the main service has the last word', ['  main:\n    mem_limit: 1g\n', serviceOf('a')], 1024 + 2048],
  ['a main service alone', ['  main:\n    mem_limit: 1g\n'], 1024],
])('adds the memory of services: %s', async (_, services, memoryMb) => {
  const source = createMemorySource('task', [
    ['task.toml', '[environment]\nmemory_mb = 512'],
    ['environment/docker-compose.yaml', `services:\n${services.join('')}`],
  ])
  expect(await readDeclaredMemoryMb(source)).toBe(memoryMb)
})
