import { Readable } from 'node:stream'
import { runOnce } from '../../platform/concurrency.ts'
import { isAtOrBelow } from '../kernel/sandbox-path.ts'
import { appendTarEnd } from '../kernel/tar-writer.ts'
import { type SandboxSpec, SandboxUnavailable, type StoppedSandbox } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { withExec } from './exec-stream.ts'
import { compareListings, type FileListing, type ListedFile, RUNTIME_PATHS } from './listing.ts'
import { buildToolCommand } from './tools.ts'
import { collectPath } from './transfer.ts'

/** Private part of a `StoppedSandbox`, from which a later sandbox can start. */
export type StoppedPod = {
  cluster: Cluster
  pod: string
  imageDigest: string
  imageListing: () => Promise<FileListing>
  /** Time at which the files of the sandbox began to differ from its image. */
  startTime: string
  /** True when the cluster ended the pod and removed its files, for example because its disk was full. */
  isGone: () => boolean
  /** Lists the files, once. */
  listing: () => Promise<FileListing>
}

const stoppedPods = new WeakMap<StoppedSandbox, StoppedPod>()

type StoppedOptions = Omit<StoppedPod, 'listing' | 'imageDigest'> & { spec: SandboxSpec }

export function createStoppedSandbox({ spec, ...options }: StoppedOptions): StoppedSandbox {
  const { cluster, pod, isGone } = options
  const listing = runOnce(() => listFiles(cluster, pod))
  const stoppedPod: StoppedPod = { ...options, imageDigest: spec.image.digest, listing }
  const mounted = spec.mounts.map(({ target }) => target)
  const stopped: StoppedSandbox = {
    sandboxId: spec.id,
    async collect(path, caps) {
      if (isGone() || isAtOrBelow(path, mounted)) return undefined
      const found = await collectPath(cluster, { pod, container: MAIN }, path, { caps, prefix: '' })
      return found && { tar: Readable.from(appendTarEnd(found.tar), { objectMode: false }), leftOut: found.leftOut }
    },
    async *changes() {
      if (isGone()) return
      const [image, current] = await Promise.all([stoppedPod.imageListing(), stoppedPod.listing()])
      for (const change of compareListings(image, current, stoppedPod.startTime))
        if (!isAtOrBelow(change.path, mounted)) yield change
    },
  }
  stoppedPods.set(stopped, stoppedPod)
  return stopped
}

export function stoppedPodOf(stopped: StoppedSandbox): StoppedPod {
  const pod = stoppedPods.get(stopped)
  if (pod === undefined) throw new Error(`Sandbox ${stopped.sandboxId} belongs to another provider.`)
  return pod
}

/** Maximum size of a listing. A sandbox with a longer one cannot be compared with its image. */
const LISTING_MAX_BYTES = 256e6
const LISTING_TIMEOUT_MS = 10 * 60_000

/** Lists all files of a sandbox outside of its mounts. No command may run in it meanwhile. */
export async function listFiles(cluster: Cluster, pod: string): Promise<FileListing> {
  const { kubernetes, namespace } = cluster
  const command = buildToolCommand('find', '/', '-xdev', '-printf', '%y %C@ %s %p\\0')
  const target = { namespace, pod, container: MAIN }
  return withExec(kubernetes, target, { command, timeoutMs: LISTING_TIMEOUT_MS }, async ({ output, code }) => {
    const files = await parseListing(output)
    await code
    return files
  })
}

async function parseListing(output: Readable): Promise<FileListing> {
  const files = new Map<string, ListedFile>()
  let rest = ''
  let bytes = 0
  for await (const chunk of output.setEncoding('latin1')) {
    bytes += chunk.length
    if (bytes > LISTING_MAX_BYTES) throw new SandboxUnavailable('The sandbox has too many files to list them.')
    const lines = (rest + chunk).split('\0')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [type = '', changedAt = '', size = ''] = line.split(' ', 3)
      const path = line.slice(type.length + changedAt.length + size.length + 3)
      if (!isAtOrBelow(path, RUNTIME_PATHS)) files.set(path, { type, changedAt, bytes: Number(size) })
    }
  }
  return files
}
