import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Sandbox, type SandboxSpec, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import { BWRAP_PROCESSES, launchBwrap } from './bwrap.ts'
import { allFolders, cgroupFolders, makeCgroup } from './cgroup.ts'
import { type Files, mountFiles, planFiles, refuseLinks, rootOf } from './files.ts'
import { openGateway } from './gateway.ts'
import { type Holder, startHolder } from './holder.ts'
import { readImage } from './image-store.ts'
import { environmentOf, type Launch } from './launch.ts'
import type { Host } from './machine.ts'
import { carryOutput } from './output.ts'
import { findProcess } from './process-life.ts'
import { makeRecord, updateRecord } from './record.ts'
import { type Left, leftOf, makeRemains } from './remains.ts'
import { launchRunc } from './runc.ts'
import type { Made, Running } from './running.ts'
import { seedCopies, seedLayers } from './seed.ts'
import { takeAway } from './take-away.ts'
import { type Watched, watch } from './watch.ts'

const launchWith = { bwrap: launchBwrap, runc: launchRunc }
/** Of ours, in the sandbox's group. */
const SPARE_PROCESSES = { bwrap: BWRAP_PROCESSES, runc: 1 }

export async function startSandbox(host: Host, spec: SandboxSpec): Promise<Sandbox> {
  refuseUnsupported(spec)
  const image = await readImage(host.store, spec.image.digest)
  const cgroups = host.cgroups === undefined ? [] : allFolders(host.cgroups, spec.id)
  const deadline = Date.now() + spec.limits.seconds * 1000
  const record = await makeRecord(join(host.store.folder, 'records'), { id: spec.id, deadline, cgroups })
  const made: Made = {
    record,
    files: planFiles(host, spec.id, image.layers, spec.limits.diskMb),
    holder: undefined,
    gateway: undefined,
  }
  try {
    tell(host, spec, 'record')
    return await build(host, spec, made, image.binds ?? [])
  } catch (error) {
    await takeAway(host, made)
    if (error instanceof SandboxUnavailable || error instanceof SandboxUnsupported) throw error
    throw new SandboxUnavailable(`Sandbox ${spec.id} could not be started: ${String(error)}`, { cause: error })
  }
}

/** Tests end the engine at each of these steps. */
const tell = (host: Host, { id }: SandboxSpec, step: string): void => host.log.debug({ sandbox: id, step }, 'sandbox')

function refuseUnsupported({ network }: SandboxSpec): void {
  if (network.kind === 'none') return
  throw new SandboxUnsupported(`The local sandbox has no network of kind ${network.kind}: use docker.`)
}

async function build(host: Host, spec: SandboxSpec, made: Made, binds: string[]): Promise<Sandbox> {
  const { files, record } = made
  await mkdir(files.folder, { mode: 0o700 })
  if (host.cgroups) await makeCgroup(host.cgroups, spec.id, spec.limits, SPARE_PROCESSES[host.runtime])
  tell(host, spec, 'cgroup')

  const earlier = spec.seed.kind === 'image' ? undefined : leftOf(spec.seed.from)
  const holder = await startHolder({
    rootless: host.rootless,
    beside: earlier?.holder,
    cwd: '/',
    ownProcesses: host.runtime === 'runc',
  })
  made.holder = holder
  record.holder = await findProcess(holder.pid)
  await updateRecord(join(host.store.folder, 'records'), record)
  tell(host, spec, 'holder')

  const seeding = { host, holder, files, imageDigest: spec.image.digest }
  files.changes.push(...(await seedLayers(seeding, spec.seed)))
  await mountFiles(host, holder, files, spec.limits.diskMb)
  await seedCopies(seeding, spec.seed)
  tell(host, spec, 'mount')

  const output = await carryOutput(join(files.folder, 'output'), spec.outputFile, spec.limits.outputBytes)
  const launched = await launchWith[host.runtime]({ ...(await planLaunch(host, spec, holder, files)), binds })
  tell(host, spec, 'launch')
  if (spec.gateway) {
    made.gateway = await openGateway(launched.init.pid, spec.gateway, host.rootless)
    await launched.begin()
    tell(host, spec, 'gateway')
  }
  return sandboxOf({ host, spec, made, holder, launched, output })
}

async function planLaunch(host: Host, spec: SandboxSpec, holder: Holder, files: Files): Promise<Omit<Launch, 'binds'>> {
  const root = rootOf(host, holder, files)
  const user = spec.user ?? spec.image.user
  const found = await findAccount(root, user)
  const account = host.rootless ? asOrdinaryUser(found, user) : found
  const workdir = spec.workdir ?? spec.image.workdir
  for (const path of ['/proc', '/dev', workdir, ...spec.mounts.map(({ target }) => target)])
    await refuseLinks(root, path)
  return {
    host,
    holder,
    spec,
    root: join(host.store.folder, files.root),
    folder: files.folder,
    account,
    workdir,
    env: environmentOf(spec.image, spec, account),
    cgroups: host.cgroups === undefined ? [] : cgroupFolders(host.cgroups, spec.id),
  }
}

function sandboxOf(running: Running): Sandbox {
  const { host, spec, made, holder } = running
  const watched = watch(running)
  const left: Left = {
    imageDigest: spec.image.digest,
    holder,
    files: made.files,
    root: rootOf(host, holder, made.files),
    users: new Set(),
    removal: undefined,
  }
  const earlier = spec.seed.kind === 'image' ? undefined : leftOf(spec.seed.from)
  const remove = removalOf(running, watched, { left, earlier })
  return {
    id: spec.id,
    exited: watched.exited,
    kill: watched.kill,
    remains: makeRemains(spec.id, left),
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
