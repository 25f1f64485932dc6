import { expect, test } from 'vitest'
import { parseCgroupPath } from './refused-processes.ts'

test('finds the cgroup of a process in both cgroup versions', () => {
  const old = '9:name=systemd:/other\n8:cpu,pids:/docker/abc\n0::/unified\n'
  expect(parseCgroupPath(old, { version: 1 })).toBe('/docker/abc')
  expect(parseCgroupPath('0::/system.slice/docker-abc.scope\n', { version: 2 })).toBe('/system.slice/docker-abc.scope')
})
