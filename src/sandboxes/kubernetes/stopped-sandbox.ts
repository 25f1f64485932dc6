import { Readable } from 'node:stream'
import { tarEnd } from '../kernel/tar-writer.ts'
import type { SandboxSpec, StoppedSandbox } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { listFiles } from './list-files.ts'
import { compareListings, type FileListing, isAtOrBelow } from './listing.ts'
import { collectPath } from './transfer.ts'

/** Private part of a `StoppedSandbox`, from which a later sandbox can start. */
export type StoppedPod = {
  cluster: Cluster
  pod: string
  imageDigest: string
  image: FileListing
  /** Time at which the files of the sandbox began to differ from its image. */
  mark: string
  /** True when the cluster ended the pod and removed its files, for example because its disk was full. */
  isGone: () => boolean
  /** Lists the files, once. */
  listing: () => Promise<FileListing>
}

const insides = new WeakMap<StoppedSandbox, StoppedPod>()

type StoppedOptions = Omit<StoppedPod, 'listing' | 'imageDigest'> & { spec: SandboxSpec }

export function createStoppedSandbox({ spec, ...options }: StoppedOptions): StoppedSandbox {
  const { cluster, pod, isGone } = options
  let listed: Promise<FileListing> | undefined
  const stoppedPod: StoppedPod = {
    ...options,
    imageDigest: spec.image.digest,
    listing() {
      listed ??= listFiles(cluster, pod)
      return listed
    },
  }
  const mounted = spec.mounts.map(({ target }) => target)
  const stopped: StoppedSandbox = {
    sandboxId: spec.id,
    async collect(path, caps) {
      if (isGone() || isAtOrBelow(path, mounted)) return undefined
      const found = await collectPath(cluster, { pod, container: MAIN }, path, { caps, prefix: '' })
      return found && { tar: Readable.from(withEnd(found.tar), { objectMode: false }), leftOut: found.leftOut }
    },
    async *changes() {
      if (isGone()) return
      for (const change of compareListings(stoppedPod.image, await stoppedPod.listing(), stoppedPod.mark))
        if (!isAtOrBelow(change.path, mounted)) yield change
    },
  }
  insides.set(stopped, stoppedPod)
  return stopped
}

export function stoppedPodOf(stopped: StoppedSandbox): StoppedPod {
  const pod = insides.get(stopped)
  if (pod === undefined) throw new Error(`Sandbox ${stopped.sandboxId} belongs to another provider.`)
  return pod
}

async function* withEnd(tar: Readable): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}
