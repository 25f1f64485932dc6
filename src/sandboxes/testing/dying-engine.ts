import { writeSync } from 'node:fs'
import { join } from 'node:path'
import { createLog } from '../../platform/log.ts'
import { createLocalProvider } from '../local.ts'

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
const sandbox = await provider.start({
  id,
  image: { digest, workdir: '/', user: 'root', env: {}, base: 'image' },
  seed: { kind: 'image' },
  // Each of its processes has the id in its command line, so that a survivor is found.
  command: ['sh', '-c', `setsid sh -c ': ${id}; sleep 600; :' & [ ${step} = exited ] || sh -c ': ${id}; sleep 600; :'`],
  user: null,
  workdir: null,
  env: {},
  mounts: [],
  network: { kind: 'none' },
  gateway: { port: 18080, onConnection: (socket) => void socket.end() },
  limits: { cpus: 1, memoryMb: 128, pids: 32, diskMb: 32, outputBytes: 1000, seconds: 60 },
  input: 'x',
  outputFile: join(dataFolder, 'output'),
})
if (step === 'exited') await sandbox.exited
if (step === 'removing') void sandbox.remove()
die()
