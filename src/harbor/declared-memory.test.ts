import { expect, test } from 'vitest'
import { declaredMemoryMb } from './declared-memory.ts'
import { TOML_BYTES_MAX } from './limits.ts'
import { inMemory } from './source.ts'

const memoryOf = (toml: string) => declaredMemoryMb(inMemory('task', [['task.toml', toml]]))

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

test('without task.toml there is nothing to read', async () => {
  expect(await declaredMemoryMb(inMemory('task', []))).toBeNull()
})
