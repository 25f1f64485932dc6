import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { cgroupFolders, listProcesses, readHits } from '../kernel/cgroup.ts'
import { type DiskWatch, noWatch, watchBoth, watchDisk, watchFolders } from '../kernel/disk.ts'
import { type SandboxEnding, toExit } from '../kernel/explain.ts'
import { isAlive, killProcess, signal, waitForEnd } from '../kernel/process-life.ts'
import { type Exit, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import type { Host } from './machine.ts'
import { type LocalRunningSandbox, release } from './running.ts'

const PROCESS_END_MS = 10_000
const OUTPUT_SHOWN_BYTES = 500

export type WatchedSandbox = { exited: Promise<Exit>; kill(): Promise<void>; isDiskFull: DiskWatch['isFull'] }

/** Waits for the end of a running sandbox and enforces its time and disk limits. */
export function watch(running: LocalRunningSandbox): WatchedSandbox {
  const { launched, spec } = running
  const startedAt = performance.now()
  let stopped: SandboxEnding['stopped']
  let isOver = false

  const stop = async (reason: NonNullable<SandboxEnding['stopped']>): Promise<void> => {
    if (isOver) return
    stopped ??= reason
    await killProcess(launched.init)
  }
  const timer = setTimeout(() => void stop('seconds'), spec.limits.seconds * 1000)
  const disk = watchDiskUse(running, () => void stop('disk'))

  const waitForExit = async (): Promise<Exit> => {
    try {
      const { code, errorOutput, hasStarted } = await launched.ended
      const seconds = (performance.now() - startedAt) / 1000
      await ensureDead(running)
      isOver = true
      await running.output.finish()
      const { bytes } = await running.output.ended
      const hits = await readLimitHits(running)
      const hasFailed = code === undefined && !hasStarted
      if (hasFailed && stopped === undefined && hits.memory === 0) throw await startFailure(running, errorOutput)
      return toExit({
        stopped,
        code,
        hits,
        seconds,
        outputBytes: bytes,
        diskFull: await disk.isFull(),
        outputMaxBytes: spec.limits.outputBytes,
      })
    } finally {
      clearTimeout(timer)
      disk.stop()
      await release(running.resources)
    }
  }
  const exited = waitForExit()
  exited.catch(() => {}) // reported when `exited` is awaited
  return { exited, kill: () => stop('kill'), isDiskFull: disk.isFull }
}

function watchDiskUse({ spec, resources, holder, host }: LocalRunningSandbox, onFull: () => void): DiskWatch {
  const { diskMb } = spec.limits
  const shared = spec.mounts.flatMap((mount) => (mount.kind === 'folder' && !mount.readOnly ? [mount.source] : []))
  const own = resources.files.disk === undefined ? [join(resources.files.folder, 'upper')] : []
  const folders = [...own, ...shared]
  const processes = () => listSandboxProcesses(host, spec)
  const watched = folders.length > 0 ? watchFolders({ folders, maxMb: diskMb, processes }, onFull) : noWatch
  if (resources.files.disk === undefined) return watched
  return watchBoth(watchDisk(holder, join(host.store.folder, resources.files.disk)), watched)
}

const listSandboxProcesses = async ({ cgroups }: Host, { id }: SandboxSpec): Promise<number[]> => {
  const [folder] = cgroups ? cgroupFolders(cgroups, id) : []
  return folder === undefined ? [] : listProcesses(folder)
}

/** Kills processes that outlive the command. */
async function ensureDead({ launched, host, spec }: LocalRunningSandbox): Promise<void> {
  if (await isAlive(launched.init)) await killProcess(launched.init)
  if (!(await waitForEnd(launched.init, PROCESS_END_MS))) {
    throw new SandboxUnavailable(`Sandbox ${spec.id} was killed but has not ended.`)
  }
  for (const pid of await listSandboxProcesses(host, spec)) signal(pid)
}

const readLimitHits = async ({ host, spec }: LocalRunningSandbox): Promise<{ memory: number; pids: number }> =>
  host.cgroups ? readHits(host.cgroups, spec.id) : { memory: 0, pids: 0 }

/** Builds the error for a sandbox that did not start. The runtime writes its message to the output of the command. */
async function startFailure({ spec }: LocalRunningSandbox, errorOutput: string): Promise<SandboxUnavailable> {
  await using file = await open(spec.outputFile)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(OUTPUT_SHOWN_BYTES), 0, OUTPUT_SHOWN_BYTES, 0)
  const message = `${errorOutput} ${buffer.toString('utf8', 0, bytesRead)}`.trim()
  return new SandboxUnavailable(`Sandbox ${spec.id} did not start: ${message}`)
}
