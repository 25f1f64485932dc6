import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLongRun } from '../../../test/support/parts.ts'
import { conformance } from './conformance.ts'
import { dockerSubjectAt } from './docker-subject.ts'

const SOCKETS = 'the engine leaves sockets out without a word, and an ordinary user cannot look itself'

const NO_LAYERS = 'layers of the engine cannot be read without root, and the engine reports less about them'

// Run by docker-ordinary-user.test.ts, in a process of another user.
conformance(
  'docker as an ordinary user',
  () =>
    dockerSubjectAt(join(tmpdir(), 'docker.sock'), {
      'collect takes files, folders and links that stay inside, and names what it leaves out': SOCKETS,
      'changes lists new, changed and deleted paths of a sandbox and of those that it was seeded from': NO_LAYERS,
      'unsafe files: the next sandbox starts all the same after links that lead nowhere or to themselves': NO_LAYERS,
    }),
  { share: isLongRun() ? 1 : 4 },
)
