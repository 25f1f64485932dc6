import { isTable, type Value, type ValueTable } from '../../fields.ts'
import { findBuild, isEnabled, isInsideFolder, listEntriesAt, listRawServices } from '../compose-services.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import type { TaskView, UsedCompose } from '../view.ts'

const SOCKET =
  /(?:docker|dockerd|containerd|podman|crio|buildkitd|cri-dockerd)\.sock|[/\\]pipe[/\\]docker|\/run\/(?:docker|containerd|podman|crio)\b/
const SOCKET_ADDRESS = /^(?:DOCKER_HOST|CONTAINER_HOST)\b.{0,20}(?:tcp|unix|ssh|npipe|fd):/

/** Variables for the log folders, which Harbor required every task to mount until 2025. */
const LOGS = /^\$\{?(?:HOST|ENV)_(?:VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH\b/
const CONTEXT = /^\$\{?CONTEXT_DIR\b/

/** An uninterpreted mount. `entry` is the whole entry as text. */
type RawMount = { path: string; source: string; entry: string }

/** Lists mounts. `source` is empty for a named volume in the short form. */
function listRawMounts(view: TaskView): RawMount[] {
  return listRawServices(view).flatMap(({ path, settings }) =>
    listEntriesAt(settings, path, 'volumes').flatMap(({ path: at, value }) => {
      if (isTable(value))
        return [{ path: at, source: toText(value.source) || toText(value.src), entry: JSON.stringify(value) }]
      const text = toText(value)
      const isPath = /^[./~$\\]|^[A-Za-z]:[\\/]/.test(text) && text.includes(':')
      return [{ path: at, source: isPath ? parseSource(text) : '', entry: text }]
    }),
  )
}

const toText = (value: Value | undefined): string => (typeof value === 'string' ? value : '')

/** Returns the part before the colon. A variable and a drive may contain a colon too: `${A:-b}:/c`, `C:\\b:/c`. */
function parseSource(text: string): string {
  const end = text.startsWith('${') ? text.indexOf('}') + 1 : 0
  const colon = text.indexOf(':', Math.max(end, 2))
  return colon < 0 ? text : text.slice(0, colon)
}

const matchDockerSocket = (view: TaskView): RuleMatch[] => [
  ...listRawMounts(view)
    .filter(({ entry }) => SOCKET.test(entry))
    .map(({ path }) => ({ path, detail: 'Access to this socket gives root privileges on the host.' })),
  ...listRawServices(view).flatMap(({ path, settings }) =>
    listAssignments(settings.environment)
      .filter((text) => SOCKET_ADDRESS.test(text))
      .map(() => ({
        path: `${path}.environment`,
        detail: 'The service would use a container engine outside the task.',
      })),
  ),
]

const listAssignments = (value: Value | undefined): string[] => {
  if (Array.isArray(value)) return value.map(toText)
  return isTable(value) ? Object.entries(value).map(([name, text]) => `${name}=${toText(text)}`) : []
}

const matchHostBinds = (view: TaskView): RuleMatch[] => [
  ...listRawMounts(view)
    .filter(({ source, entry }) => source !== '' && !SOCKET.test(entry) && !LOGS.test(source) && !CONTEXT.test(source))
    .filter(({ source, entry }) => !isInsideFolder(source) && !isVolume(entry, source))
    .map(({ path }) => ({ path, detail: 'The service would mount a file or folder of the host.' })),
  ...view.composes.flatMap(matchHostVolumes),
]

/** Returns true for a named volume in the long form. */
const isVolume = (entry: string, source: string): boolean =>
  entry.startsWith('{') && !entry.includes('"bind"') && /^[\w.-]+$/.test(source)

/** Matches volumes that are a folder of the host or shared with other tasks. */
function matchHostVolumes({ path, table }: UsedCompose): RuleMatch[] {
  const volumes = isTable(table.volumes) ? Object.entries(table.volumes) : []
  return volumes
    .filter(
      ([, volume]) =>
        isTable(volume) && (isEnabled(volume.driver_opts) || isEnabled(volume.external) || isEnabled(volume.driver)),
    )
    .map(([name]) => ({ path: `${path}.volumes.${name}`, detail: 'The volume would be a volume of the host.' }))
}

const OUTSIDE = 'The file is not part of the environment.'

function matchOutsideFiles(view: TaskView): RuleMatch[] {
  const inServices = listRawServices(view).flatMap(({ path, settings }) => [
    ...matchFilesAt(settings, path, 'env_file'),
    ...matchFilesAt(settings, path, 'label_file'),
    ...matchFilesAt(settings, path, 'extends'),
  ])
  const inFiles = view.composes.flatMap(({ path, table }) => [
    ...matchFilesAt(table, path, 'include'),
    ...(isTable(table.configs)
      ? Object.keys(table.configs).flatMap((name) => matchConfig(table.configs, path, name))
      : []),
  ])
  return [...inServices, ...inFiles]
}

const matchFilesAt = (settings: ValueTable, path: string, key: string): RuleMatch[] =>
  listEntriesAt(settings, path, key)
    .filter(({ value }) => listFileNames(value, key).some((name) => !isInsideFolder(name)))
    .map((entry) => ({ path: entry.path, detail: OUTSIDE }))

/** Lists the referenced files. `extends: name` refers to a service of the same file. */
function listFileNames(value: Value, key: string): string[] {
  if (!isTable(value)) return key === 'extends' ? [] : [toText(value)]
  return [value.file, value.path].flatMap((each) => (Array.isArray(each) ? each.map(toText) : [toText(each)]))
}

const matchConfig = (configs: Value | undefined, path: string, name: string): RuleMatch[] => {
  const config = isTable(configs) ? configs[name] : undefined
  if (!isTable(config)) return []
  const isOfHost = isEnabled(config.external) || isEnabled(config.environment) || !isInsideFolder(toText(config.file))
  return isOfHost ? [{ path: `${path}.configs.${name}`, detail: OUTSIDE }] : []
}

const matchSecrets = (view: TaskView): RuleMatch[] => [
  ...listRawServices(view).flatMap((service) => {
    const serviceSecrets = isEnabled(service.settings.secrets) ? [`${service.path}.secrets`] : []
    const build = findBuild(service)
    const buildSecrets = isEnabled(build?.secrets) || isEnabled(build?.ssh) ? [`${service.path}.build`] : []
    return [...serviceSecrets, ...buildSecrets].map((path) => ({ path, detail: SECRETS }))
  }),
  ...view.composes
    .filter(({ table }) => isEnabled(table.secrets))
    .map(({ path }) => ({ path: `${path}.secrets`, detail: SECRETS })),
]

const SECRETS = 'A task must not use secrets of the host. Remove this key.'

const matchBuildContexts = (view: TaskView): RuleMatch[] =>
  listRawServices(view).flatMap((service) => {
    const build = findBuild(service) ?? {}
    const context = toText(build.context) || '.'
    const isInside = CONTEXT.test(context) || (isInsideFolder(context) && !isRemote(context))
    const file = toText(build.dockerfile) || 'Dockerfile'
    const isOutside =
      !isInside ||
      !isInsideFolder(CONTEXT.test(context) ? file : `${context}/${file}`) ||
      isEnabled(build.additional_contexts)
    return isOutside
      ? [{ path: `${service.path}.build`, detail: 'The build context must be inside the environment.' }]
      : []
  })

const isRemote = (context: string): boolean => /^[a-z+]{2,10}:\/\/|^git@|^[\w.-]+\.[a-z]{2,10}\/.{0,200}#/.test(context)

/** Rules for compose files that access files of the host. */
export const composeFileRules: SafetyRule[] = [
  {
    id: 'compose_docker_socket',
    severity: 'block',
    description: 'the socket of a container engine',
    check: matchDockerSocket,
  },
  {
    id: 'compose_host_binds',
    severity: 'block',
    description: 'files, folders and volumes of the host',
    check: matchHostBinds,
  },
  {
    id: 'compose_outside_files',
    severity: 'block',
    description: 'settings read from files outside the environment',
    check: matchOutsideFiles,
  },
  {
    id: 'compose_secrets',
    severity: 'block',
    description: 'secrets and SSH agents of the host',
    check: matchSecrets,
  },
  {
    id: 'compose_build_context',
    severity: 'block',
    description: 'builds from a folder outside the environment or from an address',
    check: matchBuildContexts,
  },
]
