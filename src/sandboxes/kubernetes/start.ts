import { createReadStream } from 'node:fs'
import { mkdir, realpath, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { create as pack, x as unpack } from 'tar'
import { resolveAccount } from '../kernel/accounts.ts'
import { computeSelfEndSeconds } from '../kernel/exit.ts'
import { abandon, removeOrAbandon, requireSafeId } from '../kernel/ownership.ts'
import { type Sandbox, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { fillSandbox } from './base-filesystem.ts'
import { ApiRefusal } from './client.ts'
import { type Cluster, type ClusterImage, HELPER, MAIN, podName } from './cluster.ts'
import { type RunningCommand, startCommand } from './command.ts'
import { type FolderImages, prepareFolderImages } from './folder-images.ts'
import type { FileListing } from './listing.ts'
import { ADOPTABLE, buildPod, toMountFolder } from './pod.ts'
import { findPod, isRunning, releaseReservation, removePod, startPod } from './pods.ts'
import { listInNewPod, shareListing } from './prepare.ts'
import { followCommand, type RecordedCommand, startRecordedCommand } from './recorder.ts'
import { openRelay, type PodRelay } from './relay.ts'
import { joinNetwork, toPodNetwork } from './sandbox-network.ts'
import { startWithVolumes } from './shared-volumes.ts'
import { createStoppedSandbox, listFiles } from './stopped-sandbox.ts'
import { collectPath, runScript, unpackInto } from './transfer.ts'
import { attachSupervisor, type CommandBuilder, type Supervisor, watchPod } from './watch.ts'

export async function startSandbox(cluster: Cluster, requested: SandboxSpec): Promise<Sandbox> {
  const image = requirePrepared(cluster, requested)
  const spec = { ...requested, isAdoptable: canBeAdopted(cluster, requested) }
  const name = podName(cluster, spec.id)
  try {
    const { reference } = image
    const folderImages = await prepareFolderImages(cluster, spec.mounts)
    const options = { name, reference, role: 'sandbox', network: toPodNetwork(spec), folderImages } as const
    const pod = await startWithVolumes(cluster, spec, (volumes) =>
      startPod(cluster, name, buildPod(cluster, spec, { ...options, volumes })),
    )
    try {
      return await initialize(cluster, spec, { name, image, folderImages, address: pod.status.podIP ?? '' })
    } catch (error) {
      await removePod(cluster, name)
      throw error
    }
  } catch (error) {
    if (error instanceof ApiRefusal && error.reason === 'AlreadyExists')
      throw new Error(`Sandbox ${spec.id} already exists.`, { cause: error })
    // The cluster may have created a pod without answering, or not have removed it.
    abandon(spec.id)
    throw error instanceof ApiRefusal ? toRefusedStart(spec.id, error) : error
  } finally {
    for (const { tar } of spec.uploads) tar.destroy()
  }
}

const toRefusedStart = (id: string, refusal: ApiRefusal): SandboxUnavailable =>
  new SandboxUnavailable(`The cluster refused sandbox ${id}: ${refusal.message}`, { cause: refusal })

function requirePrepared({ images }: Cluster, { id, image }: SandboxSpec): ClusterImage {
  requireSafeId(id)
  const prepared = images.get(image.digest)
  if (prepared === undefined) throw new SandboxUnavailable(`The image ${image.digest} has not been prepared.`)
  return prepared
}

/** Returns true if another process can continue the sandbox. Other runtimes may not support named pipes between containers. */
const canBeAdopted = (
  { settings }: Cluster,
  { isAdoptable, command, baseFilesystem, network, ports }: SandboxSpec,
): boolean =>
  isAdoptable === true &&
  network === null &&
  command !== null &&
  baseFilesystem.kind === 'image' &&
  ports.every(({ onPipe }) => onPipe !== undefined) &&
  settings.runtimeClass === undefined

type StartedPod = { name: string; image: ClusterImage }
type NewPod = StartedPod & { folderImages: FolderImages }

async function initialize(
  cluster: Cluster,
  spec: SandboxSpec,
  { name, image, folderImages, address }: NewPod & { address: string },
): Promise<Sandbox> {
  const supervisor = await attachSupervisor(cluster, name)
  let leaveNetwork = (): void => {}
  try {
    const { listing, startTime } = await prepareFiles(cluster, spec, { name, image, folderImages })
    const relay = await openRelay(cluster, name, spec)
    leaveNetwork = await joinNetwork(cluster, spec, { pod: name, address })
    const command = await runCommand(cluster, spec, { name, image, startTime })
    const running = { name, image, supervisor, relay, command, elapsedSeconds: 0, startTime, leaveNetwork }
    return toSandbox(cluster, spec, { ...running, imageListing: async () => listing })
  } catch (error) {
    leaveNetwork()
    supervisor.close()
    throw error
  }
}

/** Continues a sandbox that another process has started. Its output is read again from the beginning. */
export async function adoptSandbox(cluster: Cluster, requested: SandboxSpec): Promise<Sandbox | undefined> {
  for (const { tar } of requested.uploads) tar.destroy()
  const image = requirePrepared(cluster, requested)
  const spec = { ...requested, isAdoptable: true }
  const name = podName(cluster, spec.id)
  const pod = await findPod(cluster, name)
  if (pod?.metadata.annotations?.[ADOPTABLE] === undefined || !isRunning(pod.status)) return undefined
  const supervisor = await attachSupervisor(cluster, name)
  let command: RecordedCommand | undefined
  try {
    const output = { file: spec.outputFile, maxBytes: spec.limits.outputBytes }
    command = await followCommand(cluster, name, output)
    const relay = await openRelay(cluster, name, spec)
    const { elapsedSeconds, startTime } = command
    const leaveNetwork = (): void => {}
    const running = { name, image, supervisor, relay, command, elapsedSeconds, startTime, leaveNetwork }
    return toSandbox(cluster, spec, { ...running, imageListing: () => listInNewPod(cluster, spec, image) })
  } catch (error) {
    command?.close()
    supervisor.close()
    throw error
  }
}

/** Script that creates the working directory and prints the current time. Files that change later are the sandbox's own. */
const START_TIME_SCRIPT = `call mkdir -p -- "$1" || exit
: > /.assay-mark && call find /.assay-mark -printf %C@ && call rm /.assay-mark`

/** Fills the sandbox. The files of the image are listed when its first sandbox starts. */
async function prepareFiles(cluster: Cluster, spec: SandboxSpec, { name, image, folderImages }: NewPod) {
  const main = { pod: name, container: MAIN, folder: '/' } as const
  if (image.addedFiles !== undefined) await unpackInto(cluster, main, createReadStream(image.addedFiles))
  const listing = await shareListing(image, () => listFiles(cluster, name))
  const startTime = await runScript(cluster, name, START_TIME_SCRIPT, [spec.workdir ?? spec.image.workdir])
  await fillSandbox(cluster, name, spec)
  await uploadFolders(cluster, name, spec, folderImages)
  return { listing, startTime }
}

/** Uploads mounted folders that have no image. The main container sees them through shared volumes. */
async function uploadFolders(
  cluster: Cluster,
  pod: string,
  { mounts }: SandboxSpec,
  folderImages: FolderImages,
): Promise<void> {
  for (const [index, mount] of mounts.entries()) {
    if (mount.kind !== 'folder' || folderImages.has(index)) continue
    const found = await stat(mount.source).catch(() => undefined)
    if (!found?.isDirectory()) throw new SandboxUnavailable(`${mount.source} cannot be mounted: it is not a folder.`)
    // The source itself may be a link to the folder.
    const tar = pack({ cwd: await realpath(mount.source), portable: false }, ['.'])
    await unpackInto(cluster, { pod, container: HELPER, folder: toMountFolder(index) }, toBuffers(tar))
  }
}

async function* toBuffers(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const chunk of stream) yield Buffer.from(chunk)
}

/** Returns the function that completes commands with the settings of a sandbox. */
const createCommandBuilder =
  (spec: SandboxSpec, { accounts }: ClusterImage): CommandBuilder =>
  (command, overrides) => ({
    command,
    account: resolveAccount(accounts, overrides.user ?? spec.user ?? spec.image.user),
    env: { ...spec.image.env, ...spec.env, ...overrides.env },
    workdir: overrides.workdir ?? spec.workdir ?? spec.image.workdir,
    input: overrides.input ?? '',
    seconds: overrides.seconds ?? computeSelfEndSeconds(spec),
    output: overrides.output ?? { file: spec.outputFile, maxBytes: spec.limits.outputBytes },
  })

async function runCommand(
  cluster: Cluster,
  spec: SandboxSpec,
  { name, image, startTime }: StartedPod & { startTime: string },
): Promise<RunningCommand | undefined> {
  if (spec.command === null) return undefined
  const command = createCommandBuilder(spec, image)(spec.command, { input: spec.input })
  return spec.isAdoptable
    ? startRecordedCommand(cluster, name, { ...command, startTime })
    : startCommand(cluster, name, command)
}

/** Closes the ports, returns reserved resources, and copies writable folders back to this machine. */
async function finishSandbox(
  cluster: Cluster,
  { mounts, limits }: SandboxSpec,
  pod: string,
  relay: PodRelay | undefined,
): Promise<void> {
  await relay?.close()
  await releaseReservation(cluster, pod)
  const caps = { files: 200_000, bytes: limits.diskMb * 1024 * 1024 }
  for (const [index, mount] of mounts.entries()) {
    if (mount.kind !== 'folder' || mount.readOnly) continue
    const options = { caps, prefix: '' }
    const found = await collectPath(cluster, { pod, container: HELPER }, toMountFolder(index), options)
    if (found === undefined) continue
    await mkdir(mount.source, { recursive: true })
    await pipeline(found.tar, unpack({ cwd: mount.source, strip: 1, preserveOwner: false }))
  }
}

type RunningPod = StartedPod & {
  supervisor: Supervisor
  relay: PodRelay | undefined
  command: RunningCommand | undefined
  elapsedSeconds: number
  startTime: string
  imageListing: () => Promise<FileListing>
  leaveNetwork: () => void
}

function toSandbox(cluster: Cluster, spec: SandboxSpec, running: RunningPod): Sandbox {
  const { name, image, supervisor, relay, command, elapsedSeconds, startTime, imageListing, leaveNetwork } = running
  const { exited, kill, exec, leave, isGone } = watchPod({
    cluster,
    spec,
    name,
    supervisor,
    command,
    elapsedSeconds,
    toCommand: createCommandBuilder(spec, image),
    onEnd: () => finishSandbox(cluster, spec, name, relay),
  })
  exited.then(leaveNetwork, leaveNetwork)
  let isLeft = false
  const leaveAll = async (): Promise<void> => {
    isLeft = true
    await leave()
    relay?.leave()
    command?.close()
    supervisor.close()
  }
  return {
    id: spec.id,
    exited,
    kill,
    exec,
    stopped: createStoppedSandbox({ spec, cluster, pod: name, imageListing, startTime, isGone }),
    async remove() {
      if (isLeft) return
      await kill().catch(() => {})
      await exited.catch(() => {})
      supervisor.close()
      await removeOrAbandon(spec.id, () => removePod(cluster, name))
    },
    ...(spec.isAdoptable ? { leave: leaveAll } : {}),
  }
}
