import { expect, test } from 'vitest'
import { cgroupFolders, parseDelegatedPath, parseLayout } from './cgroup.ts'

const V1 = `30 1 0:1 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 1 0:2 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 1 0:3 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 1 0:4 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`
const V2 = `24 1 0:5 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
25 1 8:1 / / rw - ext4 /dev/vda rw`

test('finds the trees of both cgroup versions in the mount table', () => {
  const first = parseLayout(V1)
  expect(first).toMatchObject({ version: 1, cpu: '/sys/fs/cgroup/cpu,cpuacct' })
  expect(first && cgroupFolders(first, 'x')[0]).toBe('/sys/fs/cgroup/pids/assay-x')
  const second = parseLayout(V2)
  expect(second).toEqual({ version: 2, unified: '/sys/fs/cgroup' })
  expect(second && cgroupFolders(second, 'x')).toEqual(['/sys/fs/cgroup/assay-x'])
  expect(parseLayout('25 1 8:1 / / rw - ext4 /dev/vda rw')).toBeUndefined()
})

test.each([
  ['0::/system.slice/assay.service\n', '/system.slice/assay.service'],
  ['0::/system.slice/assay.service/assay-itself\n', '/system.slice/assay.service'],
  ['0::/\n', '/'],
  ['0::/assay-itself\n', '/'],
  ['0::/user.slice/user-1000.slice/session-3.scope\n', undefined],
  ['4:memory:/x.service\n1:name=systemd:/x.service\n', undefined],
])('a cgroup that may be delegated is that of a service or container: %j', (text, expected) => {
  expect(parseDelegatedPath(text)).toBe(expected)
})
