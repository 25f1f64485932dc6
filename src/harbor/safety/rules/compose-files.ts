import { isTable, type Value, type ValueTable } from '../../fields.ts'
import { buildOf, entriesAt, isInside, isOn, servicesOf } from '../compose-services.ts'
import type { Found, Rule } from '../rule.ts'
import type { UsedCompose } from '../task-parts.ts'
import type { View } from '../view.ts'

// What a compose file takes from the machine that it is started on.

const SOCKET =
  /(?:docker|dockerd|containerd|podman|crio|buildkitd|cri-dockerd)\.sock|[/\\]pipe[/\\]docker|\/run\/(?:docker|containerd|podman|crio)\b/
const SOCKET_ADDRESS = /^(?:DOCKER_HOST|CONTAINER_HOST)\b.{0,20}(?:tcp|unix|ssh|npipe|fd):/

/** Harbor names the folders for logs in these, and once had every task mount them. */
const LOGS = /^\$\{?(?:HOST|ENV)_(?:VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH\b/
const CONTEXT = /^\$\{?CONTEXT_DIR\b/

type Mounted = { path: string; source: string; all: string }

/** What is mounted and from where. A name of a volume is no source. */
function mountsOf(view: View): Mounted[] {
  return servicesOf(view).flatMap(({ path, settings }) =>
    entriesAt(settings, path, 'volumes').flatMap(({ path: at, value }) => {
      if (isTable(value))
        return [{ path: at, source: textOf(value.source) || textOf(value.src), all: JSON.stringify(value) }]
      const text = textOf(value)
      const isPath = /^[./~$\\]|^[A-Za-z]:[\\/]/.test(text) && text.includes(':')
      return [{ path: at, source: isPath ? sourceOf(text) : '', all: text }]
    }),
  )
}

const textOf = (value: Value | undefined): string => (typeof value === 'string' ? value : '')

/** Before the colon, but a colon may stand in a variable too: `${A:-b}:/c`. */
function sourceOf(text: string): string {
  const end = text.startsWith('${') ? text.indexOf('}') + 1 : 0
  const colon = text.indexOf(':', Math.max(end, 2))
  return colon < 0 ? text : text.slice(0, colon)
}

const dockerSocket = (view: View): Found[] => [
  ...mountsOf(view)
    .filter(({ all }) => SOCKET.test(all))
    .map(({ path }) => ({ path, detail: 'Whoever reaches this socket is root on the host.' })),
  ...servicesOf(view).flatMap(({ path, settings }) =>
    assignments(settings.environment)
      .filter((text) => SOCKET_ADDRESS.test(text))
      .map(() => ({ path: `${path}.environment`, detail: 'It names a container engine that is not its own.' })),
  ),
]

const assignments = (value: Value | undefined): string[] => {
  if (Array.isArray(value)) return value.map(textOf)
  return isTable(value) ? Object.entries(value).map(([name, text]) => `${name}=${textOf(text)}`) : []
}

const hostBinds = (view: View): Found[] => [
  ...mountsOf(view)
    .filter(({ source, all }) => source !== '' && !SOCKET.test(all) && !LOGS.test(source) && !CONTEXT.test(source))
    .filter(({ source, all }) => !isInside(source) && !isVolume(all, source))
    .map(({ path }) => ({ path, detail: 'It would mount a file or folder of the host.' })),
  ...view.composes.flatMap(volumesOfHost),
]

/** In the long form a source may be the name of a volume. */
const isVolume = (all: string, source: string): boolean =>
  all.startsWith('{') && !all.includes('"bind"') && /^[\w.-]+$/.test(source)

/** A volume can be a folder of the host, or one that other tasks have too. */
function volumesOfHost({ path, table }: UsedCompose): Found[] {
  const volumes = isTable(table.volumes) ? Object.entries(table.volumes) : []
  return volumes
    .filter(
      ([, volume]) => isTable(volume) && (isOn(volume.driver_opts) || isOn(volume.external) || isOn(volume.driver)),
    )
    .map(([name]) => ({ path: `${path}.volumes.${name}`, detail: 'This volume would be one of the host.' }))
}

const OUTSIDE = 'It would read a file that is not part of the environment.'

function outsideFiles(view: View): Found[] {
  const inServices = servicesOf(view).flatMap(({ path, settings }) => [
    ...filesAt(settings, path, 'env_file'),
    ...filesAt(settings, path, 'label_file'),
    ...filesAt(settings, path, 'extends'),
  ])
  const inFiles = view.composes.flatMap(({ path, table }) => [
    ...filesAt(table, path, 'include'),
    ...(isTable(table.configs)
      ? Object.keys(table.configs).flatMap((name) => configAt(table.configs, path, name))
      : []),
  ])
  return [...inServices, ...inFiles]
}

const filesAt = (settings: ValueTable, path: string, key: string): Found[] =>
  entriesAt(settings, path, key)
    .filter(({ value }) => fileNames(value, key).some((name) => !isInside(name)))
    .map((entry) => ({ path: entry.path, detail: OUTSIDE }))

/** `extends: name` names a service of the same file. */
function fileNames(value: Value, key: string): string[] {
  if (!isTable(value)) return key === 'extends' ? [] : [textOf(value)]
  return [value.file, value.path].flatMap((each) => (Array.isArray(each) ? each.map(textOf) : [textOf(each)]))
}

const configAt = (configs: Value | undefined, path: string, name: string): Found[] => {
  const config = isTable(configs) ? configs[name] : undefined
  if (!isTable(config)) return []
  const isOfHost = isOn(config.external) || isOn(config.environment) || !isInside(textOf(config.file))
  return isOfHost ? [{ path: `${path}.configs.${name}`, detail: OUTSIDE }] : []
}

const secrets = (view: View): Found[] => [
  ...servicesOf(view).flatMap((service) => {
    const own = isOn(service.settings.secrets) ? [`${service.path}.secrets`] : []
    const build = buildOf(service)
    return [...own, ...(isOn(build?.secrets) || isOn(build?.ssh) ? [`${service.path}.build`] : [])].map((path) => ({
      path,
      detail: 'No secret of the host is handed to a task.',
    }))
  }),
  ...view.composes
    .filter(({ table }) => isOn(table.secrets))
    .map(({ path }) => ({ path: `${path}.secrets`, detail: 'No secret of the host is handed to a task.' })),
]

const buildContexts = (view: View): Found[] =>
  servicesOf(view).flatMap((service) => {
    const build = buildOf(service) ?? {}
    const context = textOf(build.context) || '.'
    const isOwn = CONTEXT.test(context) || (isInside(context) && !isRemote(context))
    const file = textOf(build.dockerfile) || 'Dockerfile'
    const isOut =
      !isOwn || !isInside(CONTEXT.test(context) ? file : `${context}/${file}`) || isOn(build.additional_contexts)
    return isOut ? [{ path: `${service.path}.build`, detail: 'An image is built from the environment only.' }] : []
  })

const isRemote = (context: string): boolean => /^[a-z+]{2,10}:\/\/|^git@|^[\w.-]+\.[a-z]{2,10}\/.{0,200}#/.test(context)

export const composeFileRules: Rule[] = [
  {
    id: 'compose_docker_socket',
    severity: 'block',
    what: 'the socket of a container engine',
    check: dockerSocket,
  },
  {
    id: 'compose_host_binds',
    severity: 'block',
    what: 'files, folders and volumes of the host',
    check: hostBinds,
  },
  {
    id: 'compose_outside_files',
    severity: 'block',
    what: 'settings read from files outside the environment',
    check: outsideFiles,
  },
  {
    id: 'compose_secrets',
    severity: 'block',
    what: 'secrets and SSH agents of the host',
    check: secrets,
  },
  {
    id: 'compose_build_context',
    severity: 'block',
    what: 'builds from a folder outside the environment or from an address',
    check: buildContexts,
  },
]
