import ipaddr from 'ipaddr.js'
import type { Environment, Network } from '../../task.ts'
import type { Caps } from '../options.ts'
import type { Found, Rule } from '../rule.ts'
import type { View } from '../view.ts'

type Asked = readonly [path: string, value: number | null | undefined, most: number]

const above = (asked: readonly Asked[]): Found[] =>
  asked
    .filter(([, value, most]) => typeof value === 'number' && value > most)
    .map(([path, value, most]) => ({ path, detail: `It asks for ${value}. The most is ${most}.` }))

const settingsOf = ({ folder }: Environment): string => (folder === 'environment' ? folder : 'verifier.environment')

const resources = ({ environments, caps }: View): Found[] =>
  above(
    environments.flatMap((environment) => [...ownResources(environment, caps), ...serviceResources(environment, caps)]),
  )

function ownResources(environment: Environment, caps: Caps): Asked[] {
  const at = settingsOf(environment)
  const { cpus, memoryMb, storageMb, gpus } = environment.resources
  return [
    [`${at}.cpus`, cpus, caps.cpus],
    [`${at}.memory_mb`, memoryMb, caps.memoryMb],
    [`${at}.storage_mb`, storageMb, caps.storageMb],
    [`${at}.gpus`, gpus, caps.gpus],
  ]
}

const serviceResources = ({ folder, compose }: Environment, caps: Caps): Asked[] =>
  (compose?.services ?? []).flatMap(({ name, resources: own }) => {
    const at = `${folder}/docker-compose.yaml.services.${name}`
    return [
      [`${at}.cpus`, own.cpus, caps.cpus],
      [`${at}.mem_limit`, own.memoryMb, caps.memoryMb],
      [`${at}.shm_size`, own.shmMb, caps.memoryMb],
    ] as const
  })

function timeouts({ outline, environments, caps }: View): Found[] {
  const steps = outline?.steps ?? []
  return above([
    ...environments.map(
      (each) => [`${settingsOf(each)}.build_timeout_sec`, each.buildTimeoutSec, caps.buildTimeoutSec] as const,
    ),
    ...environments.map(
      (each) => [`${settingsOf(each)}.healthcheck`, each.healthcheck?.timeoutSec, caps.timeoutSec] as const,
    ),
    ...steps.flatMap(({ agent, verifier, healthcheck }) => [
      ['agent.timeout_sec', agent.timeoutSec, caps.timeoutSec] as const,
      ['verifier.timeout_sec', verifier.timeoutSec, caps.timeoutSec] as const,
      ['steps.healthcheck', healthcheck?.timeoutSec, caps.timeoutSec] as const,
      ...verifier.collect.map((hook) => ['verifier.collect', hook.timeoutSec, caps.timeoutSec] as const),
    ]),
  ])
}

/** Each network that is asked for, with the key that asks. */
const networksOf = ({ outline, environments }: View): (readonly [string, Network])[] => [
  ...environments.map((each) => [`${settingsOf(each)}.network_mode`, each.network] as const),
  ...(outline?.steps ?? []).flatMap(
    ({ agent, verifier }) =>
      [
        ['agent.network_mode', agent.network],
        ['verifier.network_mode', verifier.network],
      ] as const,
  ),
]

function networkModes(view: View): Found[] {
  const { sandbox } = view
  if (!sandbox) return []
  const missing = networksOf(view).filter(([, { mode }]) => mode !== 'unsaid' && !sandbox.network.includes(mode))
  return [...new Map(missing)].map(([path, { mode }]) => ({
    path,
    detail: `It asks for ${mode}. This sandbox has ${sandbox.network.join(', ') || 'none'}.`,
  }))
}

const sidecars = ({ sandbox, environments }: View): Found[] =>
  sandbox?.groups === false
    ? environments
        .filter(({ compose }) => (compose?.services ?? []).some(({ name }) => name !== 'main'))
        .map(({ folder }) => ({ path: `${folder}/docker-compose.yaml`, detail: 'This sandbox has no sidecars.' }))
    : []

const privateHosts = (view: View): Found[] =>
  [...new Map(networksOf(view))]
    .filter(([, { hosts }]) => hosts.some(isPrivate))
    .map(([path]) => ({ path: path.replace('network_mode', 'allowed_hosts'), detail: PRIVATE }))

const PRIVATE = 'An address of the runner’s own network, or of its cloud, cannot be allowed.'
const METADATA_NAMES =
  /(?:^|\.)(?:metadata\.google\.internal|instance-data|host\.docker\.internal|gateway\.docker\.internal|localhost)$/

/** The first address of each range that is nobody's on the internet. */
const PRIVATE_STARTS = '0.0.0.0 10.0.0.0 100.64.0.0 127.0.0.0 169.254.0.0 172.16.0.0 192.168.0.0 ::1 fc00:: fe80::'
  .split(' ')
  .map((address) => ipaddr.parse(address))
const PRIVATE_RANGES = new Set(['unspecified', 'private', 'carrierGradeNat', 'loopback', 'linkLocal', 'uniqueLocal'])

/** A name, an address, or a range that lies in a private one or around it. */
function isPrivate(host: string): boolean {
  const [address = ''] = host.split('/')
  if (!ipaddr.isValid(address)) return METADATA_NAMES.test(host)
  if (PRIVATE_RANGES.has(ipaddr.process(address).range())) return true
  if (!ipaddr.isValidCIDR(host)) return false
  const range = ipaddr.parseCIDR(host)
  return PRIVATE_STARTS.some((start) => start.kind() === range[0].kind() && start.match(range))
}

export const limitRules: Rule[] = [
  {
    id: 'resource_caps',
    severity: 'block',
    what: 'more processors, memory, storage or GPUs than any task needs',
    check: resources,
  },
  {
    id: 'timeout_caps',
    severity: 'block',
    what: 'a build, an agent or a verifier that may run for days',
    check: timeouts,
  },
  {
    id: 'timeout_missing',
    severity: 'warn',
    what: 'an agent that may run for as long as it likes',
    check: ({ outline }) =>
      (outline?.steps ?? []).some(({ agent }) => agent.timeoutSec === null)
        ? [{ path: 'agent.timeout_sec', detail: 'The agent has no time limit of its own.' }]
        : [],
  },
  {
    id: 'network_mode',
    severity: 'block',
    what: 'a network that the sandbox cannot give or cannot close',
    check: networkModes,
  },
  {
    id: 'sidecars',
    severity: 'block',
    what: 'sidecars where the sandbox has none',
    check: sidecars,
  },
  {
    id: 'private_hosts',
    severity: 'block',
    what: 'private addresses and metadata services on the list of allowed hosts',
    check: privateHosts,
  },
]
