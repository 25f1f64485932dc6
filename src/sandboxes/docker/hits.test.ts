import { expect, test } from 'vitest'
import { groupOf } from './hits.ts'

test('finds the cgroup of a process in both cgroup versions', () => {
  const old = '9:name=systemd:/other\n8:cpu,pids:/docker/abc\n0::/unified\n'
  expect(groupOf(old, { version: 1 })).toBe('/docker/abc')
  expect(groupOf('0::/system.slice/docker-abc.scope\n', { version: 2 })).toBe('/system.slice/docker-abc.scope')
})
