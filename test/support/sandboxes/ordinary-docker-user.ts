import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLongRun } from '../parts.ts'
import { conformance } from './conformance.ts'
import { dockerSubjectAt } from './docker-subject.ts'

const SOCKETS = 'the engine leaves sockets out without a word, and an ordinary user cannot look itself'

// Run by docker-ordinary-user.test.ts, in a process of another user.
conformance(
  'docker as an ordinary user',
  () =>
    dockerSubjectAt(join(tmpdir(), 'docker.sock'), {
      'collect returns files, folders and links that stay inside, and lists what it leaves out': SOCKETS,
    }),
  { share: isLongRun() ? 1 : 4 },
)
