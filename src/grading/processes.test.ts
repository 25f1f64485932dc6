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

/** Root's part: the user's line is run, its processes are ended, and then somebody looks whether one goes on. */
const JUDGE = `
import os, sys, time
sys.path.insert(0, ${JSON.stringify(join(import.meta.dirname, 'files'))})
import processes
processes.User.enter_passwd = lambda self, home: None
processes.User.environment = lambda self: {'PATH': os.environ['PATH'], 'HOME': '/nonexistent'}
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
  const { stdout } = await promisify(execFile)('/usr/bin/python3', ['-c', JUDGE], { cwd: folder })
  expect(stdout.trim()).toBe('0  False')
})
