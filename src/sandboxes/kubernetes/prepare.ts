import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { create as pack } from 'tar'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import { type AccountFiles, resolveAccount } from '../kernel/accounts.ts'
import { computeTreeDigest } from '../kernel/prepare-image.ts'
import { type Image, type ImageSource, type PrepareOptions, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { prepareBuilt, prepareNamed } from './build-image.ts'
import { type Cluster, type ClusterImage, MAIN, podName } from './cluster.ts'
import { runExec } from './exec-stream.ts'
import type { FileListing } from './listing.ts'
import { buildPod } from './pod.ts'
import { findMainContainer, removePod, startPod } from './pods.ts'
import { listFiles } from './stopped-sandbox.ts'
import { buildScriptCommand } from './tools.ts'
import { unpackInto } from './transfer.ts'

/**
 * Prepares an image. The image of a Dockerfile is built unless the registry has it. The settings of a prebuilt image are
 * read from a pod that is started once. If its command is needed too, the image is copied to the registry instead.
 */
export async function prepareImage(cluster: Cluster, source: ImageSource, options: PrepareOptions): Promise<Image> {
  if (source.kind === 'dockerfile') return prepareBuilt(cluster, source, options)
  if (options.needsCommand && source.folder === null && cluster.builder) {
    const named = await prepareNamed(cluster, source.name, options)
    return { ...named, workdir: source.workdir ?? named.workdir }
  }
  const image = await loadImage(cluster, source.name, options)
  return addFolder(cluster, image, source)
}

const probes = new WeakMap<Cluster, Map<string, Promise<Image>>>()

/** Starts a pod of the image to find out its settings, once for each name. */
function loadImage(cluster: Cluster, name: string, options: PrepareOptions): Promise<Image> {
  const known = probes.get(cluster) ?? new Map<string, Promise<Image>>()
  probes.set(cluster, known)
  return shareSuccessByKey(known, name, () => probeImage(cluster, name, options))
}

const PROBE_TIMEOUT_MS = 60_000
const LISTING_SECONDS = 10 * 60
const PROBE_LIMITS = { ...DEFAULT_LIMITS, cpus: 0.1, memoryMb: 64, diskMb: 64, pids: 64, outputBytes: 0 }

/** Script that prints the variables, the working directory, the user and the account files of the image, separated by zero bytes. */
const PROBE_SCRIPT = `call cat /proc/1/environ; printf '\\0\\0'
cd -P /proc/1/cwd && printf '%s\\0' "$(pwd -P)"
while read -r key value rest; do case "$key" in Uid:|Gid:) printf '%s\\0' "$value";; esac; done < /proc/1/status
for file in /etc/passwd /etc/group; do if [ -f "$file" ]; then call cat "$file"; fi; printf '\\0'; done`

async function probeImage(cluster: Cluster, reference: string, { timeoutSec, signal }: PrepareOptions): Promise<Image> {
  const id = `probe-${randomUUID()}`
  const name = podName(cluster, id)
  const spec = { id, mounts: [], ports: [], limits: { ...PROBE_LIMITS, seconds: timeoutSec } }
  signal.throwIfAborted()
  const pod = await startPod(cluster, name, buildPod(cluster, spec, { name, reference, role: 'probe' }))
  try {
    const target = { namespace: cluster.namespace, pod: name, container: MAIN }
    const { output } = await runExec(cluster.kubernetes, target, buildScriptCommand(PROBE_SCRIPT), {
      timeoutMs: PROBE_TIMEOUT_MS,
    })
    const digest = /sha256:[0-9a-f]{64}/.exec(findMainContainer(pod.status)?.imageID ?? '')?.[0]
    if (digest === undefined) throw new SandboxUnavailable(`The cluster does not name the digest of ${reference}.`)
    const { image, accounts } = parseProbe(output.toString(), digest)
    cluster.images.set(digest, { reference, addedFiles: undefined, accounts, listing: undefined })
    return image
  } finally {
    await removePod(cluster, name)
  }
}

/** Lists the files of an image, once. For that it starts a pod with the mounts of a sandbox, in which nothing runs. */
export function listInNewPod(
  cluster: Cluster,
  { mounts, limits }: Pick<SandboxSpec, 'mounts' | 'limits'>,
  image: ClusterImage,
): Promise<FileListing> {
  const list = async (): Promise<FileListing> => {
    const id = `listing-${randomUUID()}`
    const name = podName(cluster, id)
    const spec = { id, mounts, ports: [], limits: { ...PROBE_LIMITS, diskMb: limits.diskMb, seconds: LISTING_SECONDS } }
    await startPod(cluster, name, buildPod(cluster, spec, { name, reference: image.reference, role: 'sandbox' }))
    try {
      const { addedFiles } = image
      const main = { pod: name, container: MAIN, folder: '/' } as const
      if (addedFiles !== undefined) await unpackInto(cluster, main, createReadStream(addedFiles))
      return await listFiles(cluster, name)
    } finally {
      await removePod(cluster, name)
    }
  }
  return shareListing(image, list)
}

/** Returns the listing of an image, or starts it. A failed one is started again. */
export function shareListing(image: ClusterImage, list: () => Promise<FileListing>): Promise<FileListing> {
  image.listing ??= list()
  image.listing.catch(() => {
    image.listing = undefined
  })
  return image.listing
}

/** Variables that the runtime or our pod sets, not the image. */
const RUNTIME_VARIABLES = /^(KUBERNETES_.*|HOSTNAME|LD_PRELOAD|LC_ALL|PWD|SHLVL|_)$/

function parseProbe(text: string, digest: string): { image: Image; accounts: AccountFiles } {
  // Each variable ends with a zero byte, and two more follow the last one.
  const end = text.indexOf('\0\0\0')
  const variables = text.slice(0, end).split('\0')
  const [workdir = '/', uid = '0', gid = '0', passwd, group] = text.slice(end + 3).split('\0')
  const accounts = { passwd, group }
  const { home } = resolveAccount(accounts, uid)
  const env = Object.fromEntries(
    variables
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const)
      .filter(([name, value]) => name !== '' && !RUNTIME_VARIABLES.test(name) && !(name === 'HOME' && value === home)),
  )
  const user = uid === '0' ? 'root' : `${uid}:${gid}`
  // The API does not report the entrypoint of an image, so it is never run.
  const image: Image = {
    digest,
    workdir,
    user,
    env,
    entrypoint: [],
    command: [],
    isCommandUnknown: true,
    base: 'image',
  }
  return { image, accounts }
}

/** Adds the files of a folder to the image's working directory. They are copied into each sandbox. */
async function addFolder(
  cluster: Cluster,
  image: Image,
  { folder, workdir }: Extract<ImageSource, { kind: 'prebuilt' }>,
): Promise<Image> {
  const target = workdir ?? image.workdir
  const prepared = cluster.images.get(image.digest)
  if (prepared === undefined) throw new Error(`The image ${image.digest} is not prepared.`)
  if (folder === null || (await readdir(folder)).length === 0) return { ...image, workdir: target }
  const key = [image.digest, target, await computeTreeDigest(folder)]
  const digest = `sha256:${createHash('sha256').update(JSON.stringify(key)).digest('hex')}`
  if (!cluster.images.has(digest)) {
    await mkdir(cluster.folder, { recursive: true, mode: 0o700 })
    const file = join(cluster.folder, `${digest.slice('sha256:'.length)}.tar`)
    const draft = `${file}.${randomUUID()}`
    await pipeline(pack({ cwd: folder, prefix: target.slice(1), portable: true }, ['.']), createWriteStream(draft))
    await rename(draft, file)
    cluster.images.set(digest, { ...prepared, addedFiles: file, listing: undefined })
  }
  return { ...image, digest, workdir: target }
}
