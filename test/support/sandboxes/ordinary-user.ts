import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findLayout } from '../../../src/sandboxes/kernel/cgroup.ts'
import { conformance } from './conformance.ts'
import { createLocalSubject } from './local-subject.ts'

const ONE_USER = 'an ordinary user has one user id in its namespace'
const NO_CGROUP = 'an ordinary user has no cgroups here'

const NEED_CGROUPS = [
  'memory: a command above the limit is ended, and the limit is reported',
  'memory: the limit is reported if a child process is ended and the command fails',
  'pids: the number of processes is limited, and the limit is reported',
  'cpus: CPU time is limited',
]

// Run by local-ordinary-user.test.ts, in a process of another user.
conformance('local bwrap as an ordinary user', async () => {
  const withoutCgroups = (await findLayout()) ? [] : NEED_CGROUPS
  return createLocalSubject('bwrap', {
    rootfs: join(tmpdir(), 'rootfs'),
    unable: {
      'the command runs as the specified user, by name or number, with that user’s groups and home': ONE_USER,
      'a user other than root can open /dev/stdout and /dev/stderr': ONE_USER,
      'an ordinary user has no capability and gains none with su': ONE_USER,
      'a base filesystem keeps owners and modes': ONE_USER,
      'network: an ordinary user in a member may listen below port 1024': ONE_USER,
      'exec: a command runs as the given user, with no more rights than the main command': ONE_USER,
      'an ordinary user can neither trace, read, write nor signal the first process, and its own exit code is reported':
        ONE_USER,
      'an added command cannot access the first process either': ONE_USER,
      'unsafe files: replaced account files are restored from the image': ONE_USER,
      ...Object.fromEntries(withoutCgroups.map((name) => [name, NO_CGROUP])),
    },
  })
})
