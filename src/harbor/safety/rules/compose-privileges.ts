import { isTable } from '../../fields.ts'
import { findBuild, isEnabled, listEntriesAt, listRawServices, matchEnabledKeys } from '../compose-services.ts'
import type { SafetyRule } from '../rule.ts'
import type { TaskView } from '../view.ts'

const NAMESPACES = ['network_mode', 'net', 'pid', 'ipc', 'uts', 'userns_mode', 'cgroup']

/** Returns true for `host` and for the namespace of a container outside the task. */
const isHostNamespace = (value: unknown): boolean =>
  typeof value === 'string' && /^(?:host$|container:)/.test(value.trim())

const matchHostNamespaces = (view: TaskView) =>
  listRawServices(view).flatMap((service) => {
    const { path, settings } = service
    const shared = NAMESPACES.filter((key) => isHostNamespace(settings[key])).map((key) => `${path}.${key}`)
    const built = isHostNamespace(findBuild(service)?.network) ? [`${path}.build`] : []
    const joined = isTable(settings.networks) && Object.hasOwn(settings.networks, 'host') ? [`${path}.networks`] : []
    return [...shared, ...built, ...joined].map((at) => ({
      path: at,
      detail: 'The service would share a namespace of the host.',
    }))
  })

const matchPrivilegedBuilds = (view: TaskView) =>
  listRawServices(view).flatMap((service) => {
    const build = findBuild(service)
    const keys = ['privileged', 'entitlements'].filter((key) => isEnabled(build?.[key]))
    return keys.map((key) => ({ path: `${service.path}.build`, detail: `The build would run with ${key}.` }))
  })

/** Rules for compose files that weaken the isolation of a container. */
export const composePrivilegeRules: SafetyRule[] = [
  {
    id: 'compose_privileged',
    severity: 'block',
    description: 'privileged containers and builds',
    check: (view) => [
      ...matchEnabledKeys(view, ['privileged'], 'The service would have root privileges on the host.'),
      ...matchPrivilegedBuilds(view),
    ],
  },
  {
    id: 'compose_security_options',
    severity: 'block',
    description: 'security options, other runtimes, control groups of the host',
    check: (view) =>
      matchEnabledKeys(
        view,
        [
          'security_opt',
          'runtime',
          'cgroup_parent',
          'credential_spec',
          'isolation',
          'oom_score_adj',
          'oom_kill_disable',
        ],
        'A task must not change the isolation of its containers.',
      ),
  },
  {
    id: 'compose_host_namespaces',
    severity: 'block',
    description: 'network, processes, users or other namespaces of the host',
    check: matchHostNamespaces,
  },
  {
    id: 'compose_devices',
    severity: 'block',
    description: 'devices of the host',
    check: (view) =>
      matchEnabledKeys(view, ['devices', 'device_cgroup_rules'], 'A task must not access devices of the host.'),
  },
  {
    id: 'compose_capabilities',
    severity: 'block',
    description: 'capabilities added to a container',
    check: (view) => matchEnabledKeys(view, ['cap_add'], 'A task must not add capabilities.'),
  },
  {
    id: 'compose_host_gateway',
    severity: 'block',
    description: 'an address of the host',
    check: matchHostGateway,
  },
]

const HOST_NAME = /host-gateway|\b(?:host|gateway)\.docker\.internal\b/

function matchHostGateway(view: TaskView) {
  return listRawServices(view).flatMap(({ path, settings }) =>
    ['extra_hosts', 'environment', 'command', 'entrypoint', 'links', 'external_links'].flatMap((key) =>
      listEntriesAt(settings, path, key)
        .filter(({ value }) => HOST_NAME.test(JSON.stringify(value)))
        .map((entry) => ({ path: entry.path, detail: 'A task must not connect to the host.' })),
    ),
  )
}
