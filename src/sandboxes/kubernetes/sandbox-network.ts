import { isAbandoned, LABEL } from '../kernel/ownership.ts'
import { type SandboxNetwork, type SandboxSpec, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { ApiRefusal, ignoringStatus } from './client.ts'
import { type Cluster, HELPER, podName, podsPath } from './cluster.ts'
import { runExec } from './exec-stream.ts'
import { policiesPath } from './network-policy.ts'
import type { PodNetwork } from './pod.ts'
import { buildNetworkMetadata, claimsPath, hasClaim, removeClaim } from './shared-volumes.ts'
import { runScript } from './transfer.ts'

/** A sandbox that other members of its network find by name. */
type NetworkMember = { names: string[]; address: string }

type NetworkState = {
  /** Name of the network's objects, and value of the label that its pods have. */
  name: string
  /** Live members by the names of their pods. */
  members: Map<string, NetworkMember>
  /** Resolves when the names of all earlier members have been written. */
  written: Promise<unknown>
}

const states = new WeakMap<SandboxNetwork, NetworkState>()

/**
 * Creates a sandbox network: a policy that allows traffic between its pods. All other traffic stays denied by the policy
 * for all sandboxes.
 */
export async function openNetwork(cluster: Cluster, id: string): Promise<SandboxNetwork> {
  const name = podName(cluster, id)
  await cluster.kubernetes
    .call('POST', policiesPath(cluster), { body: buildPolicy(cluster, id, name) })
    .catch((error: unknown) => {
      if (error instanceof ApiRefusal && error.reason === 'AlreadyExists')
        throw new Error(`Sandbox network ${id} already exists.`, { cause: error })
      throw error
    })
  const network: SandboxNetwork = {
    id,
    remove: () => removeNetwork(cluster, name, { mayHaveClaim: hasClaim(network) }),
  }
  states.set(network, { name, members: new Map(), written: Promise.resolve() })
  return network
}

function buildPolicy(cluster: Cluster, id: string, name: string) {
  const peers = [{ podSelector: { matchLabels: { [LABEL.network]: name } } }]
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: buildNetworkMetadata(cluster, id, name),
    spec: {
      podSelector: { matchLabels: { [LABEL.network]: name } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: peers }],
      egress: [{ to: peers }],
    },
  }
}

/** Removes the volumes of a network, if it has a claim, and then its policy. */
async function removeNetwork(
  cluster: Cluster,
  name: string,
  { mayHaveClaim }: { mayHaveClaim: boolean },
): Promise<void> {
  if (mayHaveClaim) await removeClaim(cluster, name)
  await cluster.kubernetes.call('DELETE', `${policiesPath(cluster)}/${name}`).catch(ignoringStatus(404))
}

function stateOf(network: SandboxNetwork): NetworkState {
  const state = states.get(network)
  if (state === undefined) throw new Error(`Sandbox network ${network.id} belongs to another provider.`)
  return state
}

/** A name that can be written to /etc/hosts. */
const HOST_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/

/** Returns the settings of a member's pod, or undefined for a sandbox without a network. */
export function toPodNetwork({ network }: Pick<SandboxSpec, 'network'>): PodNetwork | undefined {
  if (network === null) return undefined
  const invalid = network.names.find((name) => !HOST_NAME.test(name))
  if (invalid !== undefined)
    throw new SandboxUnsupported(`Sandboxes in Kubernetes cannot be named ${JSON.stringify(invalid)}.`)
  return { label: stateOf(network.sandboxNetwork).name, hostname: toHostname(network.names[0] ?? '') }
}

/** Replaces what a pod's host name may not have: capital letters, underscores and dots. Other members use the exact name. */
const toHostname = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, '-')
    .slice(0, 63)
    .replaceAll(/^-+|-+$/g, '') || 'member'

/**
 * Adds a sandbox whose pod runs to its network. Afterwards all members know its names, and it reaches the others. Returns
 * the function that takes its names back. Other members may remember them until the next one joins.
 */
export async function joinNetwork(
  cluster: Cluster,
  { network }: Pick<SandboxSpec, 'network'>,
  { pod, address }: { pod: string; address: string },
): Promise<() => void> {
  if (network === null) return () => {}
  const state = stateOf(network.sandboxNetwork)
  state.members.set(pod, { names: network.names, address })
  const leave = (): void => void state.members.delete(pod)
  try {
    const written = state.written.then(() => writeNames(cluster, state, pod))
    state.written = written.catch(() => {}) // reported to this member
    await written
    const others = [...state.members].flatMap(([name, member]) => (name === pod ? [] : [member.address]))
    await waitUntilReachable(cluster, pod, others)
    return leave
  } catch (error) {
    leave()
    throw error
  }
}

const WRITE_HOSTS_SCRIPT = `printf '%s' "$1" > /etc/hosts`

/** Writes the names of all members to /etc/hosts of each. A failure matters for the new member only: others may be ending. */
async function writeNames(cluster: Cluster, { members }: NetworkState, newPod: string): Promise<void> {
  const hosts = formatHosts([...members.values()])
  await Promise.all(
    [...members.keys()].map((pod) =>
      runScript(cluster, pod, WRITE_HOSTS_SCRIPT, [hosts]).catch((error: unknown) => {
        if (pod === newPod) throw error
        cluster.log.debug({ error, pod }, 'names of a sandbox network not written')
      }),
    ),
  )
}

const formatHosts = (members: NetworkMember[]): string =>
  [
    '127.0.0.1 localhost',
    '::1 localhost ip6-localhost ip6-loopback',
    ...members.map(({ address, names }) => `${address} ${names.join(' ')}`),
    '',
  ].join('\n')

const REACH_SECONDS = 30

/**
 * Program of the helper container that connects to a port on which nothing listens, until every address has refused. Most
 * network plugins drop a packet that the policy does not allow yet; one that rejects it cannot be told from a closed port.
 */
const REACH_PROGRAM = `const net = require('node:net')
const end = Date.now() + ${REACH_SECONDS * 1000}
const tryOnce = (host) => new Promise((done) => {
  const socket = net.connect({ host, port: 1 }, () => { socket.destroy(); done(true) })
  socket.setTimeout(500, () => { socket.destroy(); done(false) })
  socket.on('error', (error) => done(error.code === 'ECONNREFUSED'))
})
const reach = async (host) => {
  while (!(await tryOnce(host))) {
    if (Date.now() > end) { console.log(host); return }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
Promise.all(process.argv.slice(1).map(reach))`

/** Waits until the network plugin has applied the policy to a new member. Throws SandboxUnavailable if it does not. */
async function waitUntilReachable(cluster: Cluster, pod: string, addresses: string[]): Promise<void> {
  if (addresses.length === 0) return
  const target = { namespace: cluster.namespace, pod, container: HELPER }
  const command = ['node', '-e', REACH_PROGRAM, ...addresses]
  const timeoutMs = (REACH_SECONDS + 30) * 1000
  const { code, output, errors } = await runExec(cluster.kubernetes, target, command, { timeoutMs })
  const missed = output.toString().trim()
  if (code === 0 && missed === '') return
  throw new SandboxUnavailable(
    `Sandboxes of one network do not reach each other (${missed.replaceAll('\n', ', ') || errors}), although a NetworkPolicy allows it. Check whether another policy of the cluster denies it.`,
  )
}

const NETWORK_POLICIES = {
  group: 'networking.k8s.io',
  resource: 'networkpolicies',
  verbs: ['create', 'list', 'delete'],
}
const VOLUME_CLAIMS = { group: '', resource: 'persistentvolumeclaims', verbs: ['create', 'get', 'list', 'delete'] }

/** Returns the capabilities that depend on the settings and on the permissions of the credential. */
export async function testNetworks(cluster: Cluster): Promise<{ networks: boolean; volumes: boolean }> {
  const networks = await mayManage(cluster, NETWORK_POLICIES)
  const isConfigured = networks && cluster.settings.volumes !== undefined
  return { networks, volumes: isConfigured && (await mayManage(cluster, VOLUME_CLAIMS)) }
}

type AccessReview = { status: { allowed: boolean } }

async function mayManage(
  { kubernetes, namespace }: Cluster,
  { group, resource, verbs }: typeof NETWORK_POLICIES,
): Promise<boolean> {
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
  const reviews = verbs.map((verb) => {
    const spec = { resourceAttributes: { namespace, verb, group, resource } }
    const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec }
    return kubernetes.call<AccessReview>('POST', path, { body })
  })
  return (await Promise.all(reviews)).every(({ status }) => status.allowed)
}

type LabelledObject = {
  metadata: { name: string; labels?: Record<string, string>; annotations?: Record<string, string> }
}

/** Removes networks and volumes of this installation that no pod uses, and whose owner has died or whose deadline has passed. */
export async function reapNetworks(cluster: Cluster): Promise<number> {
  const { networks, volumes } = await testNetworks(cluster)
  if (!networks) return 0
  const paths = volumes ? [policiesPath(cluster), claimsPath(cluster)] : [policiesPath(cluster)]
  const found = (await Promise.all(paths.map((path) => listOwn(cluster, path)))).flat()
  const pods = await listOwn(cluster, podsPath(cluster))
  const used = new Set(pods.map(({ metadata }) => metadata.labels?.[LABEL.network]))
  const abandoned = new Set<string>()
  for (const { metadata } of found.filter(({ metadata: { name } }) => !used.has(name)))
    if (await isAbandoned(metadata.annotations ?? {})) abandoned.add(metadata.name)
  for (const name of abandoned) await removeNetwork(cluster, name, { mayHaveClaim: volumes })
  return abandoned.size
}

async function listOwn({ kubernetes, installation }: Cluster, path: string): Promise<LabelledObject[]> {
  const query = { labelSelector: `${LABEL.installation}=${installation}` }
  return (await kubernetes.call<{ items: LabelledObject[] }>('GET', path, { query })).items
}
