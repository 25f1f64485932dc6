import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { allFolders, cgroupFolders, makeCgroup } from '../kernel/cgroup.ts'
import { type Holder, startHolder } from '../kernel/holder.ts'
import { openPorts } from '../kernel/ports.ts'
import { findProcess } from '../kernel/process-life.ts'
import { type Sandbox, type SandboxSpec, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { BWRAP_PROCESSES, launchBwrap } from './bwrap.ts'
import { openControl } from './control.ts'
import { execIn } from './exec.ts'
import { mountFiles, planFiles, rootOf } from './files.ts'
import { type Joint, joinGroup, jointOf, networkOf } from './group.ts'
import { readImage } from './image-store.ts'
import { unpackInserts } from './insert.ts'
import { controlProcesses, hasControl } from './launch.ts'
import type { Host } from './machine.ts'
import { carryOutput } from './output.ts'
import { planLaunch } from './plan-launch.ts'
import { makeRecord, updateRecord } from './record.ts'
import { release } from './release.ts'
import { type Left, leftOf, makeRemains } from './remains.ts'
import { launchRunc } from './runc.ts'
import type { Made, Running } from './running.ts'
import { isOnStore, seedCopies, seedLayers } from './seed.ts'
import { takeAway } from './take-away.ts'
import { type Watched, watch } from './watch.ts'

const launchWith = { bwrap: launchBwrap, runc: launchRunc }
/** Of ours, in the sandbox's group. */
const SPARE_PROCESSES = { bwrap: BWRAP_PROCESSES, runc: 1 }

export async function startSandbox(host: Host, spec: SandboxSpec): Promise<Sandbox> {
  const image = await readImage(host.store, spec.image.digest)
  const foldersOf = host.runtime === 'runc' ? allFolders : cgroupFolders
  const cgroups = host.cgroups === undefined ? [] : foldersOf(host.cgroups, spec.id)
  const deadline = Date.now() + spec.limits.seconds * 1000
  const record = await makeRecord(join(host.store.folder, 'records'), { id: spec.id, deadline, cgroups })
  const made: Made = {
    record,
    files: planFiles(host, spec.id, image.layers, spec.limits.diskMb),
    holder: undefined,
    servers: [],
    control: undefined,
    membership: undefined,
  }
  try {
    tell(host, spec, 'record')
    return await build(host, spec, made, image.binds ?? [])
  } catch (error) {
    await release(made)
    await takeAway(host, made)
    if (error instanceof SandboxUnavailable || error instanceof SandboxUnsupported) throw error
    throw new SandboxUnavailable(`Sandbox ${spec.id} could not be started: ${String(error)}`, { cause: error })
  }
}

/** Tests end the engine at each of these steps. */
const tell = (host: Host, { id }: SandboxSpec, step: string): void => host.log.debug({ sandbox: id, step }, 'sandbox')

/** In an ordinary user's namespaces: what one group made cannot be shown in another. */
function refuseMixture(rootless: boolean, earlier: Left | undefined, joint: Joint | undefined): void {
  if (!rootless || !earlier || earlier.joint === joint) return
  throw new SandboxUnsupported(
    'A seed from outside the group needs a local sandbox that is started by root, or docker.',
  )
}

async function build(host: Host, spec: SandboxSpec, made: Made, binds: string[]): Promise<Sandbox> {
  const { files, record } = made
  await mkdir(files.folder, { mode: 0o700 })
  if (host.cgroups)
    await makeCgroup(host.cgroups, spec.id, spec.limits, SPARE_PROCESSES[host.runtime] + controlProcesses(spec))
  tell(host, spec, 'cgroup')

  const earlier = spec.seed.kind === 'image' ? undefined : leftOf(spec.seed.from)
  const joint = spec.group ? jointOf(spec.group.group) : undefined
  refuseMixture(host.rootless, earlier, joint)
  const holder = await openHolder(host, spec, earlier, joint)
  made.holder = holder
  record.holder = await findProcess(holder.pid)
  await updateRecord(join(host.store.folder, 'records'), record)
  tell(host, spec, 'holder')
  if (joint) {
    made.membership = { joint, address: await joinGroup(joint, holder, spec.group?.names ?? []) }
    tell(host, spec, 'member')
  }

  const seeding = { host, holder, files, imageDigest: spec.image.digest }
  files.changes.push(...(await seedLayers(seeding, spec.seed)))
  await mountFiles(host, holder, files, spec.limits.diskMb)
  for (const name of ['output', ...(spec.input.length > 0 ? ['input'] : [])])
    await host.pipes.put(holder, join(files.folder, name))
  await seedCopies(seeding, spec.seed)
  await unpackInserts(rootOf(host, holder, files), spec.inserts, !host.rootless)
  tell(host, spec, 'mount')

  const output = await carryOutput(join(files.folder, 'output'), spec.outputFile, spec.limits.outputBytes)
  if (hasControl(spec)) made.control = await openControl(files.folder, holder)
  const launched = await launchWith[host.runtime](await planLaunch({ host, spec, holder, made, binds }))
  tell(host, spec, 'launch')
  if (spec.ports.length > 0) {
    made.servers.push(...(await openPorts(networkOf(launched.init.pid, host.rootless, joint), spec.ports)))
    await launched.begin()
    tell(host, spec, 'ports')
  }
  return sandboxOf({ host, spec, made, holder, launched, output })
}

/** One that waits for work, unless it has to see what only another holder has mounted, or to be in its network. */
async function openHolder(
  host: Host,
  spec: SandboxSpec,
  earlier: Left | undefined,
  joint: Joint | undefined,
): Promise<Holder> {
  const { rootless, runtime } = host
  const isApart = earlier && (rootless || !(await isOnStore(host, spec, earlier)))
  if (!rootless && !joint && !isApart) return host.holders.take()
  return startHolder({
    ...{ rootless, beside: earlier?.holder, cwd: '/', ownProcesses: runtime === 'runc' },
    ...(joint === undefined ? {} : { network: joint.holder }),
  })
}

function sandboxOf(running: Running): Sandbox {
  const { host, spec, made, holder } = running
  const watched = watch(running)
  let over = false
  const end = (): void => {
    over = true
  }
  watched.exited.then(end, end)
  const left: Left = {
    imageDigest: spec.image.digest,
    holder,
    files: made.files,
    root: rootOf(host, holder, made.files),
    joint: made.membership?.joint,
    users: new Set(),
    removal: undefined,
  }
  const earlier = spec.seed.kind === 'image' ? undefined : leftOf(spec.seed.from)
  const remove = removalOf(running, watched, { left, earlier })
  return {
    id: spec.id,
    exited: watched.exited,
    kill: watched.kill,
    exec: async (wish) => {
      if (made.control === undefined) throw new Error(`Sandbox ${spec.id} was not started for exec.`)
      return execIn(running, made.control, { isOver: () => over, ...watched }, wish)
    },
    remains: makeRemains(spec.id, left, host.store.folder),
    remove,
  }
}

type Layers = { left: Left; earlier: Left | undefined }

/** Sandboxes that were seeded from this one need its layers: it goes with the last of them. */
function removalOf({ host, made }: Running, watched: Watched, { left, earlier }: Layers): () => Promise<void> {
  const done = Promise.withResolvers<void>()
  let begun: Promise<void> | undefined
  done.promise.catch(() => {}) // told to whoever removes this one
  earlier?.users.add(done.promise)

  const begin = async (): Promise<void> => {
    await watched.kill()
    await watched.exited.catch(() => {})
    left.removal = Promise.all(left.users).then(() => takeAway(host, made))
    left.removal.then(done.resolve, done.reject)
    if (left.users.size > 0) return
    await left.removal
    earlier?.users.delete(done.promise)
    if (earlier?.users.size === 0) await earlier.removal
  }
  return () => {
    begun ??= begin()
    return begun
  }
}
