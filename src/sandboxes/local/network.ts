import { mkdir, open, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runOnce } from '../../platform/concurrency.ts'
import { buildEnterArgs, type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { findProcess } from '../kernel/ownership.ts'
import { renderCommand } from '../kernel/shell.ts'
import { type SandboxNetwork, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import type { Host } from './machine.ts'
import { removeFolderAndRecord } from './reap.ts'
import { createRecord, type SandboxRecord, updateRecord } from './record.ts'

/** Private part of a `SandboxNetwork`. */
export type LocalNetwork = {
  /** Namespace process in the network of the bridge. */
  namespaceProcess: NamespaceProcess
  folder: string
  /** Names of the members, by address. */
  members: Map<string, string[]>
  /** Number of members so far. Each gets an address of its own. */
  lastNumber: number
  /** State of the hosts file: its size, and the last write. */
  hosts: { bytes: number; written: Promise<void> }
  /** Volumes by name. Each promise resolves when the volume has been filled. */
  volumes: Map<string, Promise<string>>
}

const localNetworks = new WeakMap<SandboxNetwork, LocalNetwork>()

export function localNetworkOf(network: SandboxNetwork): LocalNetwork {
  const localNetwork = localNetworks.get(network)
  if (localNetwork === undefined)
    throw new Error(`Sandbox network ${network.id} belongs to another provider or was removed.`)
  return localNetwork
}

/** Returns the folder of a volume on this machine. */
export const toVolumeFolder = ({ folder }: LocalNetwork, name: string): string => join(folder, 'volumes', name)

/** Opens a sandbox network: a bridge in its own network namespace, connected to its members only. */
export async function openNetwork(host: Host, id: string): Promise<SandboxNetwork> {
  if (!host.hasNetworks)
    throw new SandboxUnsupported(
      'Sandbox networks of the provider local require `ip` of iproute2. Install it, or use docker.',
    )
  const records = join(host.store.folder, 'records')
  const record = await createRecord(records, { id: `group.${id}`, deadline: Number.MAX_SAFE_INTEGER, cgroups: [] })
  const folder = join(host.store.folder, 'run', record.id)
  let namespaceProcess: NamespaceProcess | undefined
  try {
    host.log.debug({ group: id, step: 'group-record' }, 'sandbox')
    await mkdir(join(folder, 'volumes'), { recursive: true, mode: 0o700 })
    namespaceProcess = await startNamespaceProcess({
      rootless: host.rootless,
      copyMountsOf: undefined,
      cwd: '/',
      network: 'isolated',
    })
    record.namespaceProcess = await findProcess(namespaceProcess.pid)
    await updateRecord(records, record)
    await namespaceProcess.runOrThrow('Creating a sandbox network', CREATE_BRIDGE)
    host.log.debug({ group: id, step: 'group' }, 'sandbox')
    return await toSandboxNetwork(host, { id, folder, namespaceProcess, record })
  } catch (error) {
    await removeNetwork(host, record, namespaceProcess)
    if (error instanceof SandboxUnavailable) throw error
    throw new SandboxUnavailable(`Sandbox network ${id} could not be created: ${String(error)}`, { cause: error })
  }
}

const renderDisableIpv6 = (device: string): string =>
  `if [ -e /proc/sys/net/ipv6 ]; then echo 1 > /proc/sys/net/ipv6/conf/${device}/disable_ipv6; fi`

const CREATE_BRIDGE = `${renderDisableIpv6('default')} && ip link add name br0 type bridge && ip link set dev br0 up`

type OpenedNetwork = { id: string; folder: string; namespaceProcess: NamespaceProcess; record: SandboxRecord }

async function toSandboxNetwork(
  host: Host,
  { id, folder, namespaceProcess, record }: OpenedNetwork,
): Promise<SandboxNetwork> {
  const hosts = { bytes: 0, written: Promise.resolve() }
  const localNetwork: LocalNetwork = {
    namespaceProcess,
    folder,
    members: new Map(),
    lastNumber: 0,
    hosts,
    volumes: new Map(),
  }
  await writeFile(toHostsFile(localNetwork), '', { mode: 0o644 })
  await writeHosts(localNetwork)
  const removeOnce = runOnce(() => removeNetwork(host, record, namespaceProcess))
  const network: SandboxNetwork = {
    id,
    remove() {
      localNetworks.delete(network)
      return removeOnce()
    },
  }
  localNetworks.set(network, localNetwork)
  return network
}

async function removeNetwork(
  host: Host,
  record: SandboxRecord,
  namespaceProcess: NamespaceProcess | undefined,
): Promise<void> {
  await namespaceProcess?.end()
  await removeFolderAndRecord(host, record)
}

const MEMBER_NAME = /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,62})$/
/** Addresses are 10.89.x.y, with at most this many values of x and of y. */
const ADDRESS_PART_VALUES = 250

/** Connects the network of a member's namespace process to the sandbox network. Returns its address. */
export async function joinNetwork(
  localNetwork: LocalNetwork,
  member: NamespaceProcess,
  names: string[],
): Promise<string> {
  const invalidName = names.find((name) => !MEMBER_NAME.test(name))
  if (invalidName !== undefined || names.length === 0)
    throw new SandboxUnsupported(`Invalid name of a sandbox in its network: ${invalidName}`)
  await requireOwnNetwork(member)
  localNetwork.lastNumber += 1
  const number = localNetwork.lastNumber
  if (number > ADDRESS_PART_VALUES ** 2) throw new SandboxUnavailable('The sandbox network has had too many members.')
  const address = `10.89.${Math.floor(number / ADDRESS_PART_VALUES)}.${(number % ADDRESS_PART_VALUES) + 1}`
  const setUpMember = renderCommand(
    ...buildEnterArgs(member.pid, false, '--net'),
    'sh',
    '-e',
    '-c',
    buildSetupScript(address),
  )
  await localNetwork.namespaceProcess.runOrThrow(
    'Joining a sandbox network',
    `ip link add name m${number} type veth peer name eth0 netns ${member.pid} && ip link set dev m${number} master br0 up && ${setUpMember}`,
  )
  localNetwork.members.set(address, names)
  await writeHosts(localNetwork)
  return address
}

/** Checks that a process has its own network. Just after its start it is still in the network of this machine. */
async function requireOwnNetwork(member: NamespaceProcess): Promise<void> {
  await member.runOrThrow('Entering a network', 'true')
  const [ownNetwork, memberNetwork] = await Promise.all(
    ['self', member.pid].map((pid) => readlink(`/proc/${pid}/ns/net`)),
  )
  if (ownNetwork === memberNetwork)
    throw new SandboxUnavailable('A member of a sandbox network has no network namespace of its own.')
}

/** Script that sets up the network of a member. All users may listen on ports below 1024, as in a container. */
const buildSetupScript = (address: string): string => `ip link set lo up
${renderDisableIpv6('eth0')}
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start || true
ip address add ${address}/16 dev eth0
ip link set eth0 up`

/**
 * Returns the prefix of a command that enters a sandbox's network. Without root, it first enters the user namespace of the
 * sandbox network.
 */
export const buildEnterNetworkArgs = (
  pid: number,
  rootless: boolean,
  localNetwork: LocalNetwork | undefined,
): string[] =>
  localNetwork && rootless
    ? [...buildEnterArgs(localNetwork.namespaceProcess.pid, true), ...buildEnterArgs(pid, false, '--net')]
    : buildEnterArgs(pid, rootless, '--net')

export async function leaveNetwork(localNetwork: LocalNetwork, address: string): Promise<void> {
  localNetwork.members.delete(address)
  await writeHosts(localNetwork)
}

export const toHostsFile = ({ folder }: LocalNetwork): string => join(folder, 'hosts')

/** Rewrites the hosts file in place, because members mount it. It never shrinks, so that no member reads a partial file. */
function writeHosts(localNetwork: LocalNetwork): Promise<void> {
  localNetwork.hosts.written = localNetwork.hosts.written.then(async () => {
    const lines = [...localNetwork.members].map(([address, names]) => `${address}\t${names.join(' ')}\n`)
    const text = ['127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n', ...lines].join('')
    localNetwork.hosts.bytes = Math.max(localNetwork.hosts.bytes, text.length)
    await using file = await open(toHostsFile(localNetwork), 'r+')
    await file.write(text.padEnd(localNetwork.hosts.bytes, '\n'), 0)
  })
  return localNetwork.hosts.written
}
