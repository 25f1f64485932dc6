import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-processes-'))
  await chmod(folder, 0o777)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const SETUP = `
import os, sys, time
sys.path.insert(0, ${JSON.stringify(join(import.meta.dirname, 'files'))})
import processes
processes.User.add_to_passwd = lambda self, home: None
processes.User.environment = lambda self: {'PATH': os.environ['PATH'], 'HOME': '/nonexistent'}
`

/** Runs a line as the tests' user, kills all its processes, and prints whether one of them still runs. */
const RUN_AND_KILL = `${SETUP}
open('leave.py', 'w').write(${JSON.stringify(`import ctypes, os, threading, time
def live():
    while True:
        open('alive', 'w').write(str(time.time()))
        time.sleep(0.01)
if os.fork() == 0:
    os.setsid()
    for place in (0, 1, 2): os.dup2(os.open('/dev/null', os.O_RDWR), place)
    threading.Thread(target=live).start()
    ctypes.CDLL(None).pthread_exit(None)
while not os.path.exists('alive'): time.sleep(0.01)
`)})
user = processes.User(os.getcwd(), {'uid': 61999, 'timeoutSec': 20, 'tools': {}})
code, said = user.run('/usr/bin/python3 leave.py')
user.kill_all()
ended = time.time()
time.sleep(0.3)
print(code, said, os.stat('alive').st_mtime > ended)
`

test.skipIf(process.getuid?.() !== 0)('kills a process whose first thread has ended', async () => {
  const { stdout } = await promisify(execFile)('/usr/bin/python3', ['-c', RUN_AND_KILL], { cwd: folder })
  expect(stdout.trim()).toBe('0  False')
})

/** Runs a line of Python with a deadline of a second, and prints how it ended. */
const withDeadline = (line: string): string => `${SETUP}
processes.CHECK_SECONDS, processes.PROGRESS_SECONDS = 1, 0.01
user = processes.User(os.getcwd(), {'uid': 61999, 'timeoutSec': 1, 'patienceSec': 600, 'tools': {}})
try:
    print(user.run("/usr/bin/python3 -c '${line}'")[0])
except processes.BrokenRun as error:
    print(error.reason)
finally:
    user.kill_all()
`

test.skipIf(process.getuid?.() !== 0).each([
  [
    'a run that uses CPU time may go on after its deadline',
    'import time; [(sum(range(1000000)), time.sleep(0.2)) for n in range(12)]',
    '0',
  ],
  ['a run that hangs ends at its deadline', 'import time; time.sleep(300)', 'timeout'],
  ['a run that has used its CPU time ends', 'while True: pass', 'timeout'],
])('%s', async (_, line, ending) => {
  const { stdout } = await promisify(execFile)('/usr/bin/python3', ['-c', withDeadline(line)], { cwd: folder })
  expect(stdout.trim()).toBe(ending)
})
