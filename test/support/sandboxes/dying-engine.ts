import { writeSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { createLog } from '../../../src/platform/log.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'

/** Starts a sandbox and is killed at a step of it, as by a crash. Arguments: data folder, image, id, runtime, step. */
const [dataFolder = '', digest = '', id = '', runtime = '', step = ''] = process.argv.slice(2)

const die = (): boolean => process.kill(process.pid, 'SIGKILL')

const log = createLog('debug', (text) => {
  const { step: reached } = JSON.parse(text)
  if (reached === undefined) return
  writeSync(1, `${reached}\n`)
  if (reached === step) die()
})

const provider = createLocalProvider({
  dataFolder,
  runtime: runtime === 'runc' ? 'runc' : 'bwrap',
  allowHostBase: false,
  log,
})
/** Steps that only a member of a sandbox network takes. It has a volume, and a control shell that runs another command. */
const grouped = ['group-record', 'group', 'member', 'exec'].includes(step)
const group = grouped ? await provider.openNetwork(id) : null
const volume = { kind: 'volume', name: 'data', target: '/etc/apt', readOnly: false } as const

const sandbox = await provider.start({
  id,
  image: { digest, workdir: '/', user: 'root', env: {}, entrypoint: [], command: [], base: 'image' },
  baseFilesystem: { kind: 'image' },
  // Every process has the id in its command line, so that survivors are found.
  command: ['sh', '-c', `setsid sh -c ': ${id}; sleep 600; :' & [ ${step} = exited ] || sh -c ': ${id}; sleep 600; :'`],
  user: null,
  workdir: null,
  env: {},
  mounts: group ? [volume] : [],
  uploads: [],
  usesExec: grouped,
  network: group && { sandboxNetwork: group, names: ['main'] },
  ports: [{ port: 18080, onConnection: (socket) => void socket.end() }],
  limits: { cpus: 1, memoryMb: 128, shmMb: 16, pids: 32, diskMb: 32, outputBytes: 1000, seconds: 60 },
  input: 'x',
  outputFile: join(dataFolder, 'output'),
})
if (step === 'exec') {
  void sandbox.exec({
    command: ['sh', '-c', `echo $$ > /dev/stdout; : ${id}; sleep 600; :`],
    user: null,
    workdir: null,
    env: {},
    input: 'x',
    outputFile: join(dataFolder, 'exec-output'),
    limits: { outputBytes: 1000, seconds: 60 },
  })
  while ((await readFile(join(dataFolder, 'exec-output'), 'utf8').catch(() => '')) === '') await wait(10)
}
if (step === 'exited') await sandbox.exited
if (step === 'removing') void sandbox.remove()
die()
