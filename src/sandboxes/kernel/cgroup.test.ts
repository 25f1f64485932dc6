import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { countRefusedProcesses, listCgroupFolders, parseCgroupPath, parseDelegatedPath, parseLayout } from './cgroup.ts'

const V1 = `30 1 0:1 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 1 0:2 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 1 0:3 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 1 0:4 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw`
const V2 = `24 1 0:5 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
25 1 8:1 / / rw - ext4 /dev/vda rw`

test('finds the trees of both cgroup versions in the mount table', () => {
  const first = parseLayout(V1)
  expect(first).toMatchObject({ version: 1, cpu: '/sys/fs/cgroup/cpu,cpuacct' })
  expect(first && listCgroupFolders(first, 'x')[0]).toBe('/sys/fs/cgroup/pids/assay-x')
  const second = parseLayout(V2)
  expect(second).toEqual({ version: 2, unified: '/sys/fs/cgroup' })
  expect(second && listCgroupFolders(second, 'x')).toEqual(['/sys/fs/cgroup/assay-x'])
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

test('finds the cgroup of a process in both cgroup versions', () => {
  const old = '9:name=systemd:/other\n8:cpu,pids:/docker/abc\n0::/unified\n'
  expect(parseCgroupPath(old, { version: 1 })).toBe('/docker/abc')
  expect(parseCgroupPath('0::/system.slice/docker-abc.scope\n', { version: 2 })).toBe('/system.slice/docker-abc.scope')
})

test('counts refused processes also while output arrives without a pause', async () => {
  const unified = await mkdtemp(join(tmpdir(), 'assay-cgroup-'))
  onTestFinished(() => rm(unified, { recursive: true }))
  const own = parseCgroupPath(await readFile('/proc/self/cgroup', 'utf8'), { version: 2 })
  const counter = join(unified, own, 'pids.events')
  await mkdir(join(unified, own), { recursive: true })
  await writeFile(counter, 'max 0\n')
  const refused = await countRefusedProcesses({ version: 2, unified }, process.pid)
  onTestFinished(refused.stop)
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  refused.read()
  await writeFile(counter, 'max 3\n')
  const counts = Array.from({ length: 5 }, () => {
    vi.advanceTimersByTime(1)
    return refused.read()
  })
  expect(counts).toEqual([0, 3, 3, 3, 3])
})
