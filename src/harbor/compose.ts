import { posix } from 'node:path'
import { readService } from './compose-service.ts'
import { type Dialect, type Fields, isTable, readTable } from './fields.ts'
import type { Report } from './report.ts'
import { isServiceName, MAIN_SERVICE } from './settings.ts'
import type { Compose, Service } from './task.ts'
import { parseYaml } from './yaml-value.ts'

export const COMPOSE_FILE = 'docker-compose.yaml'

/** What we do not interpret, we refuse by name: a compose file that is half understood is another task. */
const YAML: Dialect = {
  unknownKey: (path, report) => report.refuse(path, 'unsupported_key', 'We do not interpret this key.'),
  numberInText: 'silently',
}

/** The compose file of a folder of the task. Undefined: it cannot be read, as the report says. */
export function parseCompose(text: string, folder: string, report: Report): Compose | undefined {
  const path = posix.join(folder, COMPOSE_FILE)
  const value = parseYaml(text, path, report)
  if (value === undefined) return undefined
  if (isTable(value)) return readTable(value, { path, report, dialect: YAML }, (fields) => readFile(fields, folder))
  report.refuse(path, 'wrong_type', 'A compose file is a table.')
  return undefined
}

function readFile(fields: Fields, folder: string): Compose {
  for (const key of ['version', 'name'].filter(fields.has))
    fields.warn(key, 'ignored_key', 'It makes no difference here.')
  // Keys with x- are for anchors.
  for (const key of fields.keys().filter((each) => each.startsWith('x-'))) fields.has(key)
  const volumes = fields.section('volumes', volumesOf)
  const services = fields.section('services', (inner) => servicesOf(inner, folder))
  checkReferences(services, volumes, fields)
  return { services, volumes }
}

function volumesOf(fields: Fields): string[] {
  for (const name of fields.keys().filter(fields.has)) fields.table(name, () => undefined)
  return fields.keys()
}

const SERVICES_MAX = 50

function servicesOf(fields: Fields, folder: string): Service[] {
  const names = fields.keys()
  if (names.length > SERVICES_MAX) {
    fields.report.refuse(fields.path, 'too_many', `The most is ${SERVICES_MAX} services.`)
    return []
  }
  return names.map((name) => {
    if (!isServiceName(name)) fields.refuse(name, 'invalid_value', 'This cannot be the name of a service.')
    const service = fields.section(name, (inner) => readService(inner, name, folder))
    if (name !== MAIN_SERVICE && !service.image && !service.build) {
      fields.refuse(name, 'required', 'A service needs image or build.')
    }
    return service
  })
}

/** Who is named must exist, and nobody may wait for himself. */
function checkReferences(services: Service[], volumes: string[], { path, report }: Fields): void {
  const names = services.map(({ name }) => name)
  for (const { name, dependsOn, mounts } of services) {
    for (const { service } of dependsOn.filter((each) => !names.includes(each.service))) {
      report.refuse(`${path}.services.${name}.depends_on.${service}`, 'unknown_service', 'There is no such service.')
    }
    for (const volume of mounts.flatMap((mount) => (mount.kind === 'volume' && mount.name ? [mount.name] : []))) {
      if (volumes.includes(volume)) continue
      report.refuse(`${path}.services.${name}.volumes.${volume}`, 'unknown_volume', 'It is not declared under volumes.')
    }
  }
  const known = services.every(({ dependsOn }) => dependsOn.every(({ service }) => names.includes(service)))
  if (known && !startOrder(services)) report.refuse(`${path}.services`, 'circle', 'They wait for each other.')
}

/** Everyone after those he waits for. Undefined when there is no such order. */
export function startOrder(services: readonly Service[]): Service[] | undefined {
  const ordered: Service[] = []
  const isUp = (name: string) => ordered.some((service) => service.name === name)
  while (ordered.length < services.length) {
    const waiting = services.filter(({ name }) => !isUp(name))
    const ready = waiting.filter(({ dependsOn }) => dependsOn.every(({ service }) => isUp(service)))
    if (ready.length === 0) return undefined
    ordered.push(...ready)
  }
  return ordered
}
