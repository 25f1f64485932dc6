import type { ServiceUse } from '../../grading/services/service.ts'
import { services } from '../../grading/services/services.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { sanitizeText } from '../../harbor/report.ts'
import { type CiJob, type DeclaredService, listCiJobs } from './ci-jobs.ts'

/** Servers that the tests of a tree have in its CI. */
export type CiServices = {
  uses: ServiceUse[]
  /** Variables of the job that refer to its servers. */
  env: Record<string, string>
  /** Declared services that cannot be provided, each with the reason. */
  unsupported: string[]
}

const SERVICES_MAX = 8

/**
 * Reads the services of the CI job that runs the tests. One job is used, because the variables of another could refer to
 * other servers. CI files are untrusted.
 */
export function findCiServices({ texts }: TreeFacts): CiServices {
  const { jobs, unreadable } = listCiJobs(texts)
  const resolved = jobs.map(resolveJob)
  const [best] = resolved.toSorted((one, other) => rankJob(one) - rankJob(other))
  const unsupported = [...(best?.unsupported ?? []), ...unreadable].slice(0, SERVICES_MAX).map(sanitizeText)
  return { uses: best?.uses ?? [], env: best?.env ?? {}, unsupported }
}

type ResolvedJob = CiServices & { runsTests: boolean }

/** Jobs that run tests come first; of these, the ones whose services are supported. */
const rankJob = ({ runsTests, unsupported }: ResolvedJob): number => (runsTests ? 0 : 1000) + unsupported.length

function resolveJob({ services: declared, env, runsTests }: CiJob): ResolvedJob {
  const found = declared.slice(0, SERVICES_MAX).map(resolveService)
  const uses = found.flatMap((each) => (typeof each === 'string' ? [] : [each]))
  const unsupported = found.flatMap((each) => (typeof each === 'string' ? [each] : []))
  const clash = uses.find(({ port }, at) => uses.findIndex((other) => other.port === port) !== at)
  if (clash) unsupported.push(`${clash.image}: port ${clash.port} is used twice`)
  const distinct = uses.filter(({ port }, at) => uses.findIndex((other) => other.port === port) === at)
  return { uses: distinct, unsupported, env: selectVariables(env, distinct), runsTests }
}

const PORT_MIN = 1024
const PORT_MAX = 65_535
const HOST = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/i
/** Values that fit on one line of a script. */
const VALUE = /^[^\p{Cc}]{0,500}$/u

/** Returns the reason where a service cannot be provided. */
function resolveService({ image, port, hosts, env }: DeclaredService): ServiceUse | string {
  const name = toImageName(image)
  const service = services.find((each) => each.image.test(name))
  if (service === undefined) return `${image}: no such server is available here`
  const chosen = port ?? service.port
  if (!Number.isInteger(chosen) || chosen < PORT_MIN || chosen > PORT_MAX) return `${image}: invalid port ${chosen}`
  if (!Object.values(env).every((value) => VALUE.test(value))) return `${image}: the value of a variable is too long`
  const fault = service.findFault(env)
  if (fault !== undefined) return `${image}: ${fault}`
  return { service: service.id, image, port: chosen, hosts: hosts.filter((host) => isOwnName(host)), env }
}

const isOwnName = (host: string): boolean => HOST.test(host) && !/^localhost$|^[\d.]+$/i.test(host)

const PUBLIC_REGISTRIES =
  /^(?:docker\.io|registry\.hub\.docker\.com|index\.docker\.io|public\.ecr\.aws\/docker|quay\.io)\//

/** Removes the registry, tag and digest: `docker.io/library/postgres:16@sha256:…` becomes `library/postgres`. */
function toImageName(image: string): string {
  const name = image.replace(/@.*$/s, '').replace(/:[^/]*$/, '')
  const inRegistry = name.replace(PUBLIC_REGISTRIES, '')
  // A private registry or a proxy of the public one: only the last part is meaningful.
  return /^[^/]*[.:][^/]*\//.test(inRegistry) ? inRegistry.slice(inRegistry.lastIndexOf('/') + 1) : inRegistry
}

/** Names of variables that configure clients of the known servers. */
const CLIENT_NAME =
  /(?:^|_)(?:PG[A-Z]*|POSTGRES[A-Z]*|DB|DATABASES?|MYSQL|MARIADB|REDIS|VALKEY|MEMCACHED?|CACHE|BROKER|CELERY|DSN)(?:_|$)/i
const CLIENT_VALUE = /^(?:postgres|postgresql|postgis|pgsql|mysql|mysql2|mariadb|redis|memcached?)(?:\+\w+)?:\/\//i
const LOOPBACK = /(?:^|[^\w.-])(?:localhost|127\.0\.0\.1)(?=$|[^\w.-])/i
/** Variables that load code, redirect traffic or belong to the image. */
const FOREIGN_NAME = /^(?:LD_|DYLD_|GIT_|BASH_ENV$|ENV$|PATH$|HOME$|TMPDIR$|PYTHON|NODE_|PERL|RUBY|JAVA_|JDK_)|PROXY$/i
const VARIABLE = /^[A-Za-z_]\w{0,60}$/
const VARIABLES_MAX = 40

/** Keeps the variables that tell tests where their servers are. Others may change how the image is built. */
function selectVariables(env: Record<string, string>, uses: readonly ServiceUse[]): Record<string, string> {
  if (uses.length === 0) return {}
  const hosts = new Set(uses.flatMap((use) => use.hosts))
  const refersToService = (name: string, value: string): boolean =>
    CLIENT_NAME.test(name) || CLIENT_VALUE.test(value) || LOOPBACK.test(value) || hosts.has(value)
  return Object.fromEntries(
    Object.entries(env)
      .filter(([name, value]) => VARIABLE.test(name) && !FOREIGN_NAME.test(name) && VALUE.test(value))
      .filter(([name, value]) => refersToService(name, value))
      .slice(0, VARIABLES_MAX),
  )
}
