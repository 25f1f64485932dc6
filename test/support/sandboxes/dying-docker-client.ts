import { writeSync } from 'node:fs'
import { join } from 'node:path'
import { createLog } from '../../../src/platform/log.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import type { SandboxSpec } from '../../../src/sandboxes/sandbox.ts'
import { baseImage } from './docker-subject.ts'

/** Starts a sandbox and is killed at a step of it, as by a crash. Arguments: data folder, socket, installation, id, step, seconds. */
const [dataFolder = '', path = '', installation = '', id = '', step = '', seconds = '60'] = process.argv.slice(2)

const die = (): boolean => process.kill(process.pid, 'SIGKILL')

const log = createLog('debug', (text) => {
  const { step: reached, sandbox } = JSON.parse(text)
  if (reached === undefined || !String(sandbox).startsWith(id)) return
  writeSync(1, `${reached}\n`)
  if (reached === step) die()
})

const provider = createDockerProvider({ connection: { kind: 'unix', path }, installation, dataFolder, log })
const image = await baseImage(provider)
const group = await provider.openNetwork(`${id}-group`)
const spec: SandboxSpec = {
  id,
  image,
  baseFilesystem: { kind: 'image' },
  uploads: [],
  usesExec: false,
  user: null,
  workdir: null,
  env: {},
  // Every process has the id in its command line, so that survivors are found.
  command: [
    'sh',
    '-c',
    `setsid sh -c ': ${id}; sleep 600; :' & [ ${step} = running ] && sh -c ': ${id}; sleep 600; :'`,
  ],
  mounts: [{ kind: 'volume', name: 'data', target: '/data', readOnly: false }],
  network: { sandboxNetwork: group, names: ['main'] },
  ports: [{ port: 18080, onConnection: (socket) => void socket.end() }],
  limits: { cpus: 1, memoryMb: 128, shmMb: 16, pids: 32, diskMb: 32, outputBytes: 1000, seconds: Number(seconds) },
  input: 'x',
  outputFile: join(dataFolder, 'output'),
}
const sandbox = await provider.start(spec)
await sandbox.exited
if (step === 'snapshot') {
  const baseFilesystem = { kind: 'snapshot' as const, from: sandbox.stopped, without: ['/etc/apt'] }
  await provider.start({ ...spec, id: `${id}-next`, baseFilesystem })
}
if (step === 'removing') await sandbox.remove()
die()
