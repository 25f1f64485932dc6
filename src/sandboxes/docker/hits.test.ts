import { expect, test } from 'vitest'
import { groupOf } from './hits.ts'

test('the group of a process is found in either kind of tree', () => {
  const old = '9:name=systemd:/other\n8:cpu,pids:/docker/abc\n0::/unified\n'
  expect(groupOf(old, { version: 1 })).toBe('/docker/abc')
  expect(groupOf('0::/system.slice/docker-abc.scope\n', { version: 2 })).toBe('/system.slice/docker-abc.scope')
})
