import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conformance } from './conformance.ts'
import { createLocalSubject } from './local-subject.ts'

const ONE_USER = 'an ordinary user has one user id in its namespace'
const NO_CGROUP = 'an ordinary user has no cgroups here'

// Run by local-ordinary-user.test.ts, in a process of another user.
conformance('local bwrap as an ordinary user', () =>
  createLocalSubject('bwrap', {
    rootfs: join(tmpdir(), 'rootfs'),
    unable: {
      'the command runs as the specified user, by name or number, with that user’s groups and home': ONE_USER,
      'a user other than root can open /dev/stdout and /dev/stderr': ONE_USER,
      'an ordinary user in it has no capability, and su gives none': ONE_USER,
      'a seed keeps owners and rights': ONE_USER,
      'group: an ordinary user in a member may listen below 1024': ONE_USER,
      'exec: it runs as the user it is given, with no more rights than the command has': ONE_USER,
      'an ordinary user can neither trace, read, write nor signal the first process, and its own exit code is reported':
        ONE_USER,
      'a command that is added to a sandbox cannot get at the first process either': ONE_USER,
      'unsafe files: accounts that were replaced are the image’s again': ONE_USER,
      'memory: what takes more than its limit is ended, and the limit is named': NO_CGROUP,
      'memory: a child that is ended for it is named when the command fails': NO_CGROUP,
      'pids: no more processes than the limit, and the limit is named': NO_CGROUP,
      'cpus: it gets no more than its share': NO_CGROUP,
    },
  }),
)
