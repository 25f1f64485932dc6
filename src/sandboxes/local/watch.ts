import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { cgroupFolders, listProcesses, readHits } from '../kernel/cgroup.ts'
import { type DiskWatch, noWatch, watchBoth, watchDisk, watchFolders } from '../kernel/disk.ts'
import { type Ending, explain } from '../kernel/explain.ts'
import { isAlive, killProcess, signal, waitForEnd } from '../kernel/process-life.ts'
import { type Exit, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import type { Host } from './machine.ts'
import { release } from './release.ts'
import type { Running } from './running.ts'

const DEATH_MS = 10_000
const COMPLAINT_BYTES = 500

export type Watched = { exited: Promise<Exit>; kill(): Promise<void>; isDiskFull: DiskWatch['isFull'] }

/** Sees a running sandbox to its end. */
export function watch(running: Running): Watched {
  const { launched, spec } = running
  const begun = performance.now()
  let stopped: Ending['stopped']
  let over = false

  const stop = async (reason: NonNullable<Ending['stopped']>): Promise<void> => {
    if (over) return
    stopped ??= reason
    await killProcess(launched.init)
  }
  const clock = setTimeout(() => void stop('seconds'), spec.limits.seconds * 1000)
  const disk = watchFor(running, () => void stop('disk'))

  const see = async (): Promise<Exit> => {
    try {
      const { code, complaint, hasStarted } = await launched.ended
      const seconds = (performance.now() - begun) / 1000
      await ensureDead(running)
      over = true
      await running.output.finish()
      const { bytes } = await running.output.ended
      const hits = await hitsOf(running)
      const hasFailed = code === undefined && !hasStarted
      if (hasFailed && stopped === undefined && hits.memory === 0) throw await startFailure(running, complaint)
      return explain({
        ...{ stopped, code, hits, seconds, outputBytes: bytes },
        diskFull: await disk.isFull(),
        outputMaxBytes: spec.limits.outputBytes,
      })
    } finally {
      clearTimeout(clock)
      disk.stop()
      await release(running.made)
    }
  }
  const exited = see()
  exited.catch(() => {}) // whoever started it hears of it when they ask
  return { exited, kill: () => stop('kill'), isDiskFull: disk.isFull }
}

function watchFor({ spec, made, holder, host }: Running, onFull: () => void): DiskWatch {
  const { diskMb } = spec.limits
  const shared = spec.mounts.flatMap((mount) => (mount.kind === 'folder' && !mount.readOnly ? [mount.source] : []))
  const own = made.files.disk === undefined ? [join(made.files.folder, 'upper')] : []
  const folders = [...own, ...shared]
  const processes = () => processesOf(host, spec)
  const watched = folders.length > 0 ? watchFolders({ folders, maxMb: diskMb, processes }, onFull) : noWatch
  if (made.files.disk === undefined) return watched
  return watchBoth(watchDisk(holder, join(host.store.folder, made.files.disk)), watched)
}

const processesOf = async ({ cgroups }: Host, { id }: SandboxSpec): Promise<number[]> => {
  const [folder] = cgroups ? cgroupFolders(cgroups, id) : []
  return folder === undefined ? [] : listProcesses(folder)
}

/** The command may have ended before its children. */
async function ensureDead({ launched, host, spec }: Running): Promise<void> {
  if (await isAlive(launched.init)) await killProcess(launched.init)
  if (!(await waitForEnd(launched.init, DEATH_MS))) {
    throw new SandboxUnavailable(`Sandbox ${spec.id} was killed and does not die.`)
  }
  for (const pid of await processesOf(host, spec)) signal(pid)
}

const hitsOf = async ({ host, spec }: Running): Promise<{ memory: number; pids: number }> =>
  host.cgroups ? readHits(host.cgroups, spec.id) : { memory: 0, pids: 0 }

/** The runtime itself complains where the command would have written. */
async function startFailure({ spec }: Running, complaint: string): Promise<SandboxUnavailable> {
  await using file = await open(spec.outputFile)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(COMPLAINT_BYTES), 0, COMPLAINT_BYTES, 0)
  const said = `${complaint} ${buffer.toString('utf8', 0, bytesRead)}`.trim()
  return new SandboxUnavailable(`Sandbox ${spec.id} did not start: ${said}`)
}
