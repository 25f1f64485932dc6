import ipaddr from 'ipaddr.js'
import type { Environment, Network } from '../../task.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import type { TaskView } from '../view.ts'

/** Exceeds the requirements of every public task. A smaller machine refuses a task when its trial is planned. */
const CAPS = {
  cpus: 64,
  memoryMb: 512 * 1024,
  storageMb: 2 * 1024 * 1024,
  gpus: 16,
  /** For an agent, a verifier, a hook or a health check. */
  timeoutSec: 24 * 3600,
  buildTimeoutSec: 6 * 3600,
}

type RequestedLimit = readonly [path: string, value: number | null | undefined, max: number]

const matchExceeded = (requested: readonly RequestedLimit[]): RuleMatch[] =>
  requested
    .filter(([, value, max]) => typeof value === 'number' && value > max)
    .map(([path, value, max]) => ({ path, detail: `The task requests ${value}. The limit is ${max}.` }))

const toSettingsPath = ({ folder }: Environment): string => (folder === 'environment' ? folder : 'verifier.environment')

const matchResources = ({ environments }: TaskView): RuleMatch[] =>
  matchExceeded(
    environments.flatMap((environment) => [...listOwnResources(environment), ...listServiceResources(environment)]),
  )

function listOwnResources(environment: Environment): RequestedLimit[] {
  const at = toSettingsPath(environment)
  const { cpus, memoryMb, storageMb, gpus } = environment.resources
  return [
    [`${at}.cpus`, cpus, CAPS.cpus],
    [`${at}.memory_mb`, memoryMb, CAPS.memoryMb],
    [`${at}.storage_mb`, storageMb, CAPS.storageMb],
    [`${at}.gpus`, gpus, CAPS.gpus],
  ]
}

const listServiceResources = ({ folder, compose }: Environment): RequestedLimit[] =>
  (compose?.services ?? []).flatMap(({ name, resources: own }) => {
    const at = `${folder}/docker-compose.yaml.services.${name}`
    return [
      [`${at}.cpus`, own.cpus, CAPS.cpus],
      [`${at}.mem_limit`, own.memoryMb, CAPS.memoryMb],
      [`${at}.shm_size`, own.shmMb, CAPS.memoryMb],
    ] as const
  })

function matchTimeouts({ outline, environments }: TaskView): RuleMatch[] {
  const steps = outline?.steps ?? []
  return matchExceeded([
    ...environments.map(
      (each) => [`${toSettingsPath(each)}.build_timeout_sec`, each.buildTimeoutSec, CAPS.buildTimeoutSec] as const,
    ),
    ...environments.map(
      (each) => [`${toSettingsPath(each)}.healthcheck`, each.healthcheck?.timeoutSec, CAPS.timeoutSec] as const,
    ),
    ...steps.flatMap(({ agent, verifier, healthcheck }) => [
      ['agent.timeout_sec', agent.timeoutSec, CAPS.timeoutSec] as const,
      ['verifier.timeout_sec', verifier.timeoutSec, CAPS.timeoutSec] as const,
      ['steps.healthcheck', healthcheck?.timeoutSec, CAPS.timeoutSec] as const,
      ...verifier.collect.map((hook) => ['verifier.collect', hook.timeoutSec, CAPS.timeoutSec] as const),
    ]),
  ])
}

/** Lists the requested networks with their keys. */
const listNetworks = ({ outline, environments }: TaskView): (readonly [string, Network])[] => [
  ...environments.map((each) => [`${toSettingsPath(each)}.network_mode`, each.network] as const),
  ...(outline?.steps ?? []).flatMap(
    ({ agent, verifier }) =>
      [
        ['agent.network_mode', agent.network],
        ['verifier.network_mode', verifier.network],
      ] as const,
  ),
]

const matchPrivateHosts = (view: TaskView): RuleMatch[] =>
  [...new Map(listNetworks(view))]
    .filter(([, { hosts }]) => hosts.some(isPrivate))
    .map(([path]) => ({ path: path.replace('network_mode', 'allowed_hosts'), detail: PRIVATE }))

const PRIVATE = 'Addresses of the runner’s private network or cloud metadata service must not be allowed.'
const METADATA_NAMES =
  /(?:^|\.)(?:metadata\.google\.internal|instance-data|host\.docker\.internal|gateway\.docker\.internal|localhost)$/

/** First address of each range that is not public. */
const PRIVATE_STARTS = '0.0.0.0 10.0.0.0 100.64.0.0 127.0.0.0 169.254.0.0 172.16.0.0 192.168.0.0 ::1 fc00:: fe80::'
  .split(' ')
  .map((address) => ipaddr.parse(address))
const PRIVATE_RANGES = new Set(['unspecified', 'private', 'carrierGradeNat', 'loopback', 'linkLocal', 'uniqueLocal'])

/** Returns true for a private name or address, or a range that overlaps a private one. */
function isPrivate(host: string): boolean {
  const [address = ''] = host.split('/')
  if (!ipaddr.isValid(address)) return METADATA_NAMES.test(host)
  if (PRIVATE_RANGES.has(ipaddr.process(address).range())) return true
  if (!ipaddr.isValidCIDR(host)) return false
  const range = ipaddr.parseCIDR(host)
  return PRIVATE_STARTS.some((start) => start.kind() === range[0].kind() && start.match(range))
}

export const limitRules: SafetyRule[] = [
  {
    id: 'resource_caps',
    severity: 'block',
    description: 'more processors, memory, storage or GPUs than any task needs',
    check: matchResources,
  },
  {
    id: 'timeout_caps',
    severity: 'block',
    description: 'a build, an agent or a verifier that may run for days',
    check: matchTimeouts,
  },
  {
    id: 'timeout_missing',
    severity: 'warn',
    description: 'an agent without a timeout',
    check: ({ outline }) =>
      (outline?.steps ?? []).some(({ agent }) => agent.timeoutSec === null)
        ? [{ path: 'agent.timeout_sec', detail: 'The agent has no timeout.' }]
        : [],
  },
  {
    id: 'private_hosts',
    severity: 'block',
    description: 'private addresses and metadata services on the list of allowed hosts',
    check: matchPrivateHosts,
  },
]
