import { isTable } from '../../fields.ts'
import { buildOf, entriesAt, isOn, servicesOf, whereSet } from '../compose-services.ts'
import type { Rule } from '../rule.ts'
import type { View } from '../view.ts'

// What makes a container of a compose file less of one.

const NAMESPACES = ['network_mode', 'net', 'pid', 'ipc', 'uts', 'userns_mode', 'cgroup']

/** `host`, or the namespaces of a container that is not part of the task. */
const isForeign = (value: unknown): boolean => typeof value === 'string' && /^(?:host$|container:)/.test(value.trim())

const hostNamespaces = (view: View) =>
  servicesOf(view).flatMap((service) => {
    const { path, settings } = service
    const own = NAMESPACES.filter((key) => isForeign(settings[key])).map((key) => `${path}.${key}`)
    const built = isForeign(buildOf(service)?.network) ? [`${path}.build`] : []
    const joined = isTable(settings.networks) && Object.hasOwn(settings.networks, 'host') ? [`${path}.networks`] : []
    return [...own, ...built, ...joined].map((at) => ({ path: at, detail: 'It would share a namespace of the host.' }))
  })

const privilegedBuild = (view: View) =>
  servicesOf(view).flatMap((service) => {
    const build = buildOf(service)
    const keys = ['privileged', 'entitlements'].filter((key) => isOn(build?.[key]))
    return keys.map((key) => ({ path: `${service.path}.build`, detail: `The build would have ${key}.` }))
  })

export const composePrivilegeRules: Rule[] = [
  {
    id: 'compose_privileged',
    severity: 'block',
    what: 'privileged containers and builds',
    check: (view) => [...whereSet(view, ['privileged'], 'It would be root on the host.'), ...privilegedBuild(view)],
  },
  {
    id: 'compose_security_options',
    severity: 'block',
    what: 'security options, other runtimes, control groups of the host',
    check: (view) =>
      whereSet(
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
        'How a container is confined is not for the task to say.',
      ),
  },
  {
    id: 'compose_host_namespaces',
    severity: 'block',
    what: 'network, processes, users or other namespaces of the host',
    check: hostNamespaces,
  },
  {
    id: 'compose_devices',
    severity: 'block',
    what: 'devices of the host',
    check: (view) => whereSet(view, ['devices', 'device_cgroup_rules'], 'Devices belong to the host.'),
  },
  {
    id: 'compose_capabilities',
    severity: 'block',
    what: 'capabilities added to a container',
    check: (view) => whereSet(view, ['cap_add'], 'No capability can be added.'),
  },
  {
    id: 'compose_host_gateway',
    severity: 'block',
    what: 'a way from a container to the host',
    check: hostGateway,
  },
]

const HOST_NAME = /host-gateway|\b(?:host|gateway)\.docker\.internal\b/

function hostGateway(view: View) {
  return servicesOf(view).flatMap(({ path, settings }) =>
    ['extra_hosts', 'environment', 'command', 'entrypoint', 'links', 'external_links'].flatMap((key) =>
      entriesAt(settings, path, key)
        .filter(({ value }) => HOST_NAME.test(JSON.stringify(value)))
        .map((entry) => ({ path: entry.path, detail: 'The host cannot be reached from a task.' })),
    ),
  )
}
