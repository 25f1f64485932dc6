import { posix } from 'node:path'
import { readService } from './compose-service.ts'
import { type Fields, type FileDialect, isTable, readTable } from './fields.ts'
import type { Report } from './report.ts'
import { isServiceName, MAIN_SERVICE } from './settings.ts'
import type { Compose, ComposeService } from './task.ts'
import { parseYaml } from './yaml-value.ts'

export const COMPOSE_FILE = 'docker-compose.yaml'

/** Unsupported keys are refused by name: ignoring them would run a different task. */
const COMPOSE_DIALECT: FileDialect = {
  unknownKey: (path, report) => report.refuse(path, 'unsupported_key', 'Unsupported key.'),
  scalarsAsStrings: 'accept',
}

/**
 * Parses the compose file of a folder of the task. Returns undefined, with a refusal in the report, if it is invalid.
 */
export function parseCompose(text: string, folder: string, report: Report): Compose | undefined {
  const path = posix.join(folder, COMPOSE_FILE)
  const value = parseYaml(text, path, report)
  if (value === undefined) return undefined
  if (isTable(value))
    return readTable(value, { path, report, dialect: COMPOSE_DIALECT }, (fields) => readComposeFile(fields, folder))
  report.refuse(path, 'wrong_type', 'A compose file must be a mapping.')
  return undefined
}

function readComposeFile(fields: Fields, folder: string): Compose {
  for (const key of ['version', 'name'].filter(fields.has)) fields.warn(key, 'ignored_key', 'This key has no effect.')
  // Extension keys hold anchors; reading them marks them as known.
  for (const key of fields.keys().filter((each) => each.startsWith('x-'))) fields.has(key)
  const volumes = fields.section('volumes', readVolumes)
  const services = fields.section('services', (inner) => readServices(inner, folder))
  checkReferences(services, volumes, fields)
  return { services, volumes }
}

/** Returns the names of the volumes. Every option of a volume is refused, because no key of its table is read. */
function readVolumes(fields: Fields): string[] {
  for (const name of fields.keys()) fields.table(name, () => undefined)
  return fields.keys()
}

const SERVICES_MAX = 50

function readServices(fields: Fields, folder: string): ComposeService[] {
  const names = fields.keys()
  if (names.length > SERVICES_MAX) {
    fields.report.refuse(fields.path, 'too_many', `The limit is ${SERVICES_MAX} services.`)
    return []
  }
  return names.map((name) => {
    if (!isServiceName(name)) fields.refuse(name, 'invalid_value', 'Invalid service name.')
    const service = fields.section(name, (inner) => readService(inner, name, folder))
    if (name !== MAIN_SERVICE && !service.image && !service.build) {
      fields.refuse(name, 'required', 'A service needs image or build.')
    }
    return service
  })
}

/** Refuses references to unknown services or volumes, and circular dependencies. */
function checkReferences(services: ComposeService[], volumes: string[], { path, report }: Fields): void {
  const names = services.map(({ name }) => name)
  for (const { name, dependsOn, mounts } of services) {
    for (const { service } of dependsOn.filter((each) => !names.includes(each.service))) {
      report.refuse(`${path}.services.${name}.depends_on.${service}`, 'unknown_service', 'Unknown service.')
    }
    for (const volume of mounts.flatMap((mount) => (mount.kind === 'volume' && mount.name ? [mount.name] : []))) {
      if (volumes.includes(volume)) continue
      report.refuse(
        `${path}.services.${name}.volumes.${volume}`,
        'unknown_volume',
        'The volume is not declared under volumes.',
      )
    }
  }
  const areServicesKnown = services.every(({ dependsOn }) => dependsOn.every(({ service }) => names.includes(service)))
  if (areServicesKnown && !orderServices(services))
    report.refuse(`${path}.services`, 'circle', 'The services depend on each other in a circle.')
}

/** Returns the services in start order, dependencies first. Returns undefined for a circular dependency. */
export function orderServices(services: readonly ComposeService[]): ComposeService[] | undefined {
  const ordered: ComposeService[] = []
  const isOrdered = (name: string) => ordered.some((service) => service.name === name)
  while (ordered.length < services.length) {
    const waiting = services.filter(({ name }) => !isOrdered(name))
    const ready = waiting.filter(({ dependsOn }) => dependsOn.every(({ service }) => isOrdered(service)))
    if (ready.length === 0) return undefined
    ordered.push(...ready)
  }
  return ordered
}
