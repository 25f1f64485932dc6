import { randomInt } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { runOnce } from '../platform/concurrency.ts'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { discardImage } from './docker/built-images.ts'
import { EngineRefusal, ignoring } from './docker/client.ts'
import type { DockerConnection } from './docker/connection.ts'
import { type DockerEngine, labelsOf, logStep, nameOf } from './docker/engine.ts'
import { openEngine } from './docker/open-engine.ts'
import { prepareImage } from './docker/prepare.ts'
import { portsFolder } from './docker/relay.ts'
import { adoptSandbox, startSandbox } from './docker/start.ts'
import { isAbandoned, LABEL, removeOrAbandon } from './kernel/ownership.ts'
import { type Capabilities, type SandboxNetwork, type SandboxProvider, SandboxUnavailable } from './sandbox.ts'

type DockerOptions = {
  /** If it is a function, it is called when the engine is first needed, and may throw SandboxUnavailable. */
  connection: DockerConnection | (() => Promise<DockerConnection>)
  /** Distinguishes servers that share an engine. Each removes only its own leftovers. */
  installation: string
  dataFolder: string
  /** Hosts that builds may reach besides public ones. */
  buildHosts?: readonly AllowedHost[]
  /** Maximum size of all images of the engine. Default: no limit. */
  imageDiskBytes?: number | undefined
  log: Log
}

const VERSION_TIMEOUT_MS = 25_000
const NO_ANSWER = 'The Docker engine does not answer.'

/** Folder of the provider's own files, in the data folder. */
export const dockerFolder = (dataFolder: string): string => join(dataFolder, 'sandboxes', 'docker')

/** Creates the provider `docker`: sandboxes are containers of a local or remote Docker engine. */
export function createDockerProvider(options: DockerOptions): SandboxProvider {
  const { connection, installation, dataFolder, buildHosts = [], imageDiskBytes, log } = options
  const folder = dockerFolder(dataFolder)
  let opened: Promise<DockerEngine> | undefined
  const connectAndOpen = async (): Promise<DockerEngine> => {
    const resolved = typeof connection === 'function' ? await connection() : connection
    return openEngine({ connection: resolved, installation, folder, buildHosts, imageDiskBytes, log })
  }
  const engine = (): Promise<DockerEngine> => {
    opened ??= connectAndOpen()
    // A failure is retried on the next call, because the engine may have been started.
    opened.catch(() => {
      opened = undefined
    })
    return opened
  }

  /** Returns the engine after checking that it still answers. Otherwise the next call detects it again. */
  const requireAnsweringEngine = async (): Promise<DockerEngine> => {
    const known = await engine()
    await known.docker
      .call('GET', '/version', { signal: AbortSignal.timeout(VERSION_TIMEOUT_MS) })
      .catch((error: unknown) => {
        opened = undefined
        throw error instanceof SandboxUnavailable ? error : new SandboxUnavailable(NO_ANSWER, { cause: error })
      })
    return known
  }

  return {
    name: 'docker',
    selfTest: async () => toCapabilities(await requireAnsweringEngine()),
    prepare: async (source, prepareOptions) => prepareImage(await engine(), source, prepareOptions),
    discard: async (image) => {
      await discardImage(await engine(), image)
    },
    openNetwork: async (id) => openNetwork(await engine(), id),
    start: async (spec) => startSandbox(await engine(), spec),
    adopt: async (spec) => adoptSandbox(await engine(), spec),
    reap: async (adoptableIds = new Set()) => reap(await engine(), adoptableIds),
  }
}

const toCapabilities = ({ isolation, gatewayChannel, limits }: DockerEngine): Capabilities => ({
  isolation,
  gatewayChannel,
  limits,
  networks: true,
  volumes: true,
})

/** A container, network or image, as the engine lists it. */
type EngineObject = { Id: string; Labels: Record<string, string> | null }

/**
 * Removes objects of this installation whose process is dead or could not remove them: containers first, then networks,
 * volumes and images. Returns the number of sandboxes.
 */
async function reap(engine: DockerEngine, adoptableIds: ReadonlySet<string>): Promise<number> {
  const { docker, log } = engine
  const abandoned = await listAbandoned(engine, '/containers/json', { all: true })
  const containers = abandoned.filter(({ Labels }) => !adoptableIds.has(Labels?.[LABEL.sandbox] ?? ''))
  for (const { Id, Labels } of containers) {
    const id = Labels?.[LABEL.sandbox]
    try {
      await docker.call('DELETE', `/containers/${Id}`, { query: { force: true, v: true } }).catch(ignoring(404, 409))
      if (id !== undefined) await rm(portsFolder(engine, id), { recursive: true, force: true })
      log.info({ sandbox: id }, 'removed an orphaned container')
    } catch (error) {
      // A failed removal must not prevent the others.
      log.error({ sandbox: id, error: String(error) }, 'could not remove an orphaned container')
    }
  }
  for (const { Labels } of await listAbandoned(engine, '/networks'))
    await removeNetwork(engine, Labels?.[LABEL.network] ?? '')
  await reapVolumes(engine)
  for (const { Id } of await listAbandoned(engine, '/images/json', { all: true })) {
    await docker.call('DELETE', `/images/${Id}`, { query: { force: true } }).catch(ignoring(404, 409))
  }
  await sweepFolder(engine.folder)
  return containers.filter(({ Labels }) => Labels?.[LABEL.role] === 'sandbox').length
}

const toInstallationFilter = ({ installation }: DockerEngine): string =>
  JSON.stringify({ label: [`${LABEL.installation}=${installation}`] })

/** Lists objects of this installation whose process is dead or could not remove them. */
async function listAbandoned(engine: DockerEngine, path: string, query = {}): Promise<EngineObject[]> {
  const objects = await engine.docker.call<EngineObject[]>('GET', path, {
    query: { ...query, filters: toInstallationFilter(engine) },
  })
  return filterAbandoned(objects)
}

async function filterAbandoned<T extends { Labels: Record<string, string> | null }>(objects: T[]): Promise<T[]> {
  const areAbandoned = await Promise.all(objects.map(({ Labels }) => isAbandoned(Labels ?? {})))
  return objects.filter((_, index) => areAbandoned[index])
}

type LabelledVolume = { Name: string; Labels: Record<string, string> | null }

/** Removes volumes of sandbox networks that no longer exist. */
async function reapVolumes(engine: DockerEngine): Promise<void> {
  const query = { filters: toInstallationFilter(engine) }
  const { Volumes } = await engine.docker.call<{ Volumes: LabelledVolume[] | null }>('GET', '/volumes', { query })
  for (const { Name } of await filterAbandoned(Volumes ?? [])) {
    await engine.docker.call('DELETE', `/volumes/${Name}`).catch(ignoring(404, 409))
  }
}

/** A live process needs a temporary folder for seconds only. */
const LEFTOVER_AGE_MS = 10 * 60_000

/** Removes temporary folders of dead processes. */
async function sweepFolder(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((entry) => /^(try|spool)-/.test(entry))) {
    const stats = await stat(join(folder, name)).catch(() => undefined)
    if (stats && Date.now() - stats.mtimeMs > LEFTOVER_AGE_MS)
      await rm(join(folder, name), { recursive: true, force: true })
  }
}

/**
 * Prefix length of a subnet, which has 61 usable addresses. Subnets are chosen at random from 10.64.0.0/10. One that this
 * machine uses elsewhere does no harm, because the bridge has no address and so adds no route.
 */
const SUBNET_BITS = 26
const SUBNET_COUNT = 2 ** (SUBNET_BITS - 10)
/** 10.64.0.0 as a number. */
const FIRST_ADDRESS = (10 * 256 + 64) * 65536
const TRIES_MAX = 20
/** Time after which other processes remove a network, even if its owner may be alive. */
const NETWORK_LIFETIME_MS = 24 * 3_600_000

/**
 * Creates an internal network. Docker's `internal` alone still reaches services that listen on all addresses of this
 * machine, through the bridge, so the bridge gets no address.
 */
async function openNetwork(engine: DockerEngine, id: string): Promise<SandboxNetwork> {
  await createNetwork(engine, id)
  logStep(engine, id, 'group')
  return { id, remove: runOnce(() => removeOrAbandon(id, () => removeNetwork(engine, id))) }
}

async function createNetwork(engine: DockerEngine, id: string): Promise<void> {
  const Name = nameOf(engine, id)
  for (let tries = 1; ; tries += 1) {
    const body = { Name, CheckDuplicate: true, ...buildNetworkSettings(engine, id) }
    const refusal = await engine.docker.call('POST', '/networks/create', { body }).then(() => undefined, requireRefusal)
    if (refusal === undefined) return
    if (refusal.status === 409) throw new Error(`Sandbox network ${id} already exists.`)
    if (!/overlap/i.test(refusal.message) || tries === TRIES_MAX) {
      throw new SandboxUnavailable(`Sandbox network ${id} could not be created: ${refusal.message}`)
    }
  }
}

function requireRefusal(error: unknown): EngineRefusal {
  if (error instanceof EngineRefusal) return error
  throw error
}

const buildNetworkSettings = (engine: DockerEngine, id: string) => ({
  Driver: 'bridge',
  Internal: true,
  EnableIPv6: false,
  IPAM: { Config: [{ Subnet: chooseSubnet() }] },
  Options: {
    'com.docker.network.bridge.inhibit_ipv4': 'true',
    'com.docker.network.bridge.enable_ip_masquerade': 'false',
    'com.docker.network.bridge.enable_icc': 'true',
  },
  Labels: labelsOf(engine, 'network', {
    [LABEL.network]: id,
    [LABEL.deadline]: String(Date.now() + NETWORK_LIFETIME_MS),
  }),
})

function chooseSubnet(): string {
  const address = FIRST_ADDRESS + randomInt(SUBNET_COUNT) * 2 ** (32 - SUBNET_BITS)
  const bytes = [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256)
  return `${bytes.join('.')}/${SUBNET_BITS}`
}

type VolumeList = { Volumes: { Name: string }[] | null }

/** Removes a sandbox network and its volumes. */
async function removeNetwork(engine: DockerEngine, id: string): Promise<void> {
  const { docker, installation } = engine
  const label = [`${LABEL.installation}=${installation}`, `${LABEL.network}=${id}`]
  await docker.call('DELETE', `/networks/${nameOf(engine, id)}`).catch(ignoring(404))
  const query = { filters: JSON.stringify({ label }) }
  const { Volumes } = await docker.call<VolumeList>('GET', '/volumes', { query })
  for (const { Name } of Volumes ?? []) await docker.call('DELETE', `/volumes/${Name}`).catch(ignoring(404))
}
