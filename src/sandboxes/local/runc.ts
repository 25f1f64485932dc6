import { access, open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { listProcesses } from '../kernel/cgroup.ts'
import { withDeadline } from '../kernel/deadline.ts'
import { parseExitCode } from '../kernel/explain.ts'
import { findProcess, type ProcessMark } from '../kernel/process-life.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { openInput } from './input.ts'
import { hasStarted, type Launch, type Launched, START_MS, STARTED_FILE } from './launch.ts'
import { PRESERVED_FD, runcSettings } from './runc-settings.ts'
import { line, quote } from './shell.ts'

const LOOK_MS = 3

/** Runs the command under runc. The holder is busy with it until it ends. */
export async function launchRunc(launch: Launch): Promise<Launched> {
  const { holder, spec, folder } = launch
  await writeFile(join(folder, 'config.json'), JSON.stringify(runcSettings(launch)), { mode: 0o600 })
  const input = await openInput(join(folder, 'input'), spec.input)

  let over = false
  const ended = holder.run(script(launch)).then(async ({ code, text }) => {
    over = true
    const complaint = await readComplaint(folder)
    return {
      code: complaint === '' ? parseExitCode(String(code)) : undefined,
      complaint: `${text}${complaint}`,
      hasStarted: await hasStarted(folder),
    }
  })
  ended.finally(() => input.close()).catch(() => {})

  const init = await withDeadline(
    findInit(launch, () => over),
    START_MS,
    () => {
      over = true
      holder.kill()
      return 'runc did not start in time.'
    },
  )
  input.send()
  // A missing process id means that the command has ended or never began, which the exit reports.
  return { init: init ?? { pid: 0, startTime: 'ended' }, ended, begin: () => openGate(folder) }
}

function script({ folder, spec }: Launch): string {
  const file = (name: string): string => quote(join(folder, name))
  const state = ['--root', join(folder, 'runc'), '--log', join(folder, 'runc.log'), '--log-format', 'json']
  // Kept after its end, so that the counters of its cgroup can be read. All of it is in folders that we remove.
  const command = line('runc', ...state, 'run', '--keep', '--preserve-fds', '1', '--bundle', folder, spec.id)
  const gate = spec.ports.length === 0 ? '' : `mkfifo -m 600 ${file('gate')} && `
  const input = spec.input.length === 0 ? '/dev/null' : file('input')
  // Also held open by runc, because writes to a pipe without readers are lost. runc does not pass it on.
  const held = spec.ports.length === 0 ? '' : ` 7<> ${file('gate')}`
  // The output is opened inside; what runc says is in its log.
  return `${gate}${command} < ${input} > /dev/null 2>&1 ${PRESERVED_FD}> ${file(STARTED_FILE)}${held}`
}

/** The process that is the first of the sandbox's own namespace, as this machine numbers it. */
async function findInit(launch: Launch, isOver: () => boolean): Promise<ProcessMark | undefined> {
  const [group] = launch.cgroups
  if (group === undefined) throw new SandboxUnavailable('runc needs cgroups.')
  while (!isOver()) {
    const first = (await isCreated(launch)) ? await findFirst(await listProcesses(group)) : undefined
    if (first) return first
    await wait(LOOK_MS)
  }
  return undefined
}

/** Reports whether the sandbox was created. Only one with ports has to wait, because its network must exist. */
const isCreated = async ({ spec, folder }: Launch): Promise<boolean> =>
  spec.ports.length === 0 || exists(join(folder, 'created'))

async function findFirst(pids: number[]): Promise<ProcessMark | undefined> {
  for (const pid of pids) if (await isFirst(pid)) return findProcess(pid)
  return undefined
}

async function isFirst(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const numbers = /^NSpid:\s+(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? []
  return numbers.length > 2 && numbers.at(-1) === '1'
}

async function openGate(folder: string): Promise<void> {
  await using gate = await open(join(folder, 'gate'), 'r+')
  await gate.writeFile('x')
}

async function readComplaint(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'runc.log'), 'utf8').catch(() => '')
  const entries: { level: string; msg: string }[] = text
    .split('\n')
    .filter(Boolean)
    .map((entry) => JSON.parse(entry))
  return entries
    .filter(({ level }) => level === 'error' || level === 'fatal')
    .map(({ msg }) => msg)
    .join('\n')
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
