import { setTimeout as wait } from 'node:timers/promises'
import { isAbandoned, LABEL } from '../kernel/ownership.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { deleteAndWait, ignoringStatus } from './client.ts'
import { type Cluster, MAIN, podsPath } from './cluster.ts'

/** Fields of a pod that we read. */
export type Pod = {
  metadata: { name: string; annotations?: Record<string, string> }
  status: PodStatus
}

export type PodStatus = {
  phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  reason?: string
  message?: string
  podIP?: string
  hostIP?: string
  conditions?: { type: string; status: string; reason?: string; message?: string }[]
  initContainerStatuses?: ContainerStatus[]
  containerStatuses?: ContainerStatus[]
}

type ContainerStatus = {
  name: string
  imageID: string
  state: {
    waiting?: { reason?: string; message?: string }
    running?: object
    terminated?: { exitCode: number; reason?: string; message?: string }
  }
}

const START_TIMEOUT_MS = 5 * 60_000

/** Creates a pod and waits until its containers run. Removes it when they do not. */
export async function startPod(cluster: Cluster, name: string, body: Record<string, unknown>): Promise<Pod> {
  await cluster.kubernetes.call('POST', podsPath(cluster), { body })
  try {
    return await waitUntilRunning(cluster, name)
  } catch (error) {
    await removePod(cluster, name)
    throw error
  }
}

async function waitUntilRunning(cluster: Cluster, name: string): Promise<Pod> {
  const deadline = performance.now() + START_TIMEOUT_MS
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 1.5, 1000)) {
    await wait(pauseMs)
    const pod = await findPod(cluster, name)
    if (pod === undefined) throw new SandboxUnavailable('The pod of a sandbox was removed while it started.')
    const problem = findStartProblem(pod.status)
    if (problem !== undefined)
      throw new SandboxUnavailable(`The cluster could not start a sandbox: ${addPullHint(problem)}`)
    if (isRunning(pod.status)) return pod
    if (performance.now() > deadline)
      throw new SandboxUnavailable(`The cluster did not start a sandbox in time. ${describeDelay(pod.status)}`)
  }
}

/** Returns true if all containers of a pod run. */
export const isRunning = ({ phase, containerStatuses = [] }: PodStatus): boolean =>
  phase === 'Running' && containerStatuses.every(({ state }) => state.running !== undefined)

/** Waiting reasons of a container that will not start by itself. */
const START_PROBLEMS = [
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
  'CrashLoopBackOff',
]

/** Returns the reason why a pod will not start, in the cluster's words. */
export function findStartProblem(status: PodStatus): string | undefined {
  const states = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])].map(
    ({ state }) => state,
  )
  const hasEnded = status.phase === 'Failed' || status.phase === 'Succeeded'
  if (hasEnded || states.some(({ terminated }) => terminated && terminated.exitCode !== 0)) return describeEnd(status)
  const stuck = states.find(({ waiting }) => START_PROBLEMS.includes(waiting?.reason ?? ''))?.waiting
  return stuck && `${stuck.reason}: ${stuck.message ?? ''}`
}

/** Adds what to check if the nodes cannot pull an image. */
const addPullHint = (problem: string): string =>
  /^(ErrImagePull|ImagePullBackOff)/.test(problem)
    ? `${problem} Check that the nodes reach the registry: pullSecrets and registry.nodeRepository in the Kubernetes settings.`
    : problem

/** Explains why a pod waits, such as a scheduler that finds no node. */
function describeDelay({ conditions = [] }: PodStatus): string {
  const scheduled = conditions.find(({ type }) => type === 'PodScheduled')
  return scheduled?.status === 'False' ? `${scheduled.reason}: ${scheduled.message}` : ''
}

/** Describes how a pod ended, in the cluster's words. */
export function describeEnd({
  phase,
  reason,
  message,
  containerStatuses = [],
  initContainerStatuses = [],
}: PodStatus): string {
  const ends = [...initContainerStatuses, ...containerStatuses].flatMap(({ name, state: { terminated } }) =>
    terminated ? [`${name}: ${terminated.reason} (${terminated.exitCode}) ${terminated.message ?? ''}`.trim()] : [],
  )
  return [reason ?? phase, message, ...ends].filter(Boolean).join(': ')
}

export const findPod = (cluster: Cluster, name: string): Promise<Pod | undefined> =>
  cluster.kubernetes.call<Pod>('GET', `${podsPath(cluster)}/${name}`).catch(ignoringStatus(404))

export const findMainContainer = ({ containerStatuses = [] }: PodStatus): ContainerStatus | undefined =>
  containerStatuses.find(({ name }) => name === MAIN)

/** Removes a pod and waits until the cluster no longer lists it. */
export const removePod = (cluster: Cluster, name: string): Promise<void> =>
  deleteAndWait(cluster.kubernetes, `${podsPath(cluster)}/${name}`, {
    body: { gracePeriodSeconds: 0 },
    timeoutMessage: 'The cluster does not remove a pod.',
  })

/** Resources that stay reserved for a pod while only its files are read. */
const RESERVED_AFTER_END = { cpu: '10m', memory: '16Mi' }

/**
 * Releases the processors and the memory that a pod reserved for its command. Without this, trials that fill a cluster
 * would wait for each other: each keeps the files of its agent and needs room for its verifier. Requires Kubernetes 1.33
 * and the permission to resize pods; elsewhere the reservation stays until the pod is removed.
 */
export async function releaseReservation(cluster: Cluster, name: string): Promise<void> {
  const body = { spec: { containers: [{ name: MAIN, resources: { requests: RESERVED_AFTER_END } }] } }
  try {
    await cluster.kubernetes.call('PATCH', `${podsPath(cluster)}/${name}/resize`, { body })
  } catch (error) {
    cluster.log.debug({ error, pod: name }, 'reservation of a pod stays')
  }
}

/** Removes abandoned pods of this installation, except those of adoptable sandboxes. */
export async function reap(cluster: Cluster, adoptableIds: ReadonlySet<string>): Promise<number> {
  const query = { labelSelector: `${LABEL.installation}=${cluster.installation}` }
  const { items } = await cluster.kubernetes.call<{ items: Pod[] }>('GET', podsPath(cluster), { query })
  let removed = 0
  for (const { metadata } of items) {
    const { annotations = {} } = metadata
    if (adoptableIds.has(annotations[LABEL.sandbox] ?? '') || !(await isAbandoned(annotations))) continue
    await removePod(cluster, metadata.name)
    removed += 1
  }
  return removed
}
