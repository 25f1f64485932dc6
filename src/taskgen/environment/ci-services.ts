import type { ServiceUse } from '../../grading/services/service.ts'
import { services as knownServices } from '../../grading/services/services.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { isTable, type Value, type ValueTable } from '../../harbor/fields.ts'
import { createReport, sanitizeText } from '../../harbor/report.ts'
import { parseYaml } from '../../harbor/yaml-value.ts'

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
  const service = knownServices.find((each) => each.image.test(name))
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

/** A job of a CI file that declares services. Expressions in its values are resolved as far as possible. */
type CiJob = {
  services: DeclaredService[]
  /** Variables of the job, except those whose value is only known in CI. */
  env: Record<string, string>
  /** Set where the job seems to run tests. */
  runsTests: boolean
}

type DeclaredService = {
  image: string
  /** Port under which the job reaches it. Null: the usual one. */
  port: number | null
  hosts: string[]
  env: Record<string, string>
}

/** Readers of CI files, by path. */
const CI_FORMATS: readonly [path: RegExp, listJobs: (file: ValueTable) => CiJob[]][] = [
  [/^\.github\/workflows\/[^/]+\.ya?ml$/, listGithubJobs],
  [/^\.gitlab-ci\.yml$/, listGitlabJobs],
]

/** Lists the jobs with services in the CI files of GitHub Actions and GitLab, and files that cannot be read. */
function listCiJobs(texts: ReadonlyMap<string, string>): { jobs: CiJob[]; unreadable: string[] } {
  const files = [...texts].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(readCiFile)
  return {
    jobs: files.flatMap(({ jobs }) => jobs).filter(({ services }) => services.length > 0),
    unreadable: files.flatMap(({ fault }) => fault ?? []),
  }
}

const DECLARES_SERVICES = /\bservices["']?:/

function readCiFile([path, text]: [string, string]): { jobs: CiJob[]; fault?: string } {
  const [, listJobs] = CI_FORMATS.find(([pattern]) => pattern.test(path)) ?? []
  if (listJobs === undefined || !DECLARES_SERVICES.test(text)) return { jobs: [] }
  const report = createReport()
  const file = parseYaml(text, path, report)
  if (isTable(file)) return { jobs: listJobs(file) }
  return { jobs: [], fault: `${path}: ${report.refusals[0]?.message ?? 'The file is not a table.'}` }
}

type Texts = Record<string, string>

const toTable = (value: Value | undefined): ValueTable => (isTable(value) ? value : {})
const toList = (value: Value | undefined): Value[] => (Array.isArray(value) ? value : [])
const toText = (value: Value | undefined): string => (typeof value === 'string' ? value : '')
const toTexts = (value: Value | undefined): Texts =>
  Object.fromEntries(Object.entries(toTable(value)).map(([name, each]) => [name, toText(each)]))

const TESTS =
  /\btests?\b|_tests?\b|\btest[-_]|\b(?:pytest|tox|nox|rspec|phpunit|pest|jest|vitest|mocha|ctest|gradlew?|mvnw?)\b/i
const SHOWN_MAX = 20_000
const mentionsTests = (...texts: string[]): boolean => texts.some((text) => TESTS.test(text.slice(0, SHOWN_MAX)))

function listGithubJobs(workflow: ValueTable): CiJob[] {
  return Object.entries(toTable(workflow.jobs)).map(([id, value]) => {
    const job = toTable(value)
    const services = Object.entries(toTable(job.services)).map(([name, each]) => readGithubService(name, each, job))
    const steps = toList(job.steps).map(toTable)
    // Variables of the steps that run tests take precedence.
    const ordered = steps.toSorted((one, other) => rankStep(one) - rankStep(other))
    const declared = Object.assign(
      {},
      toTexts(workflow.env),
      toTexts(job.env),
      ...ordered.map((step) => toTexts(step.env)),
    )
    const resolve = createGithubResolver(declared, services)
    return {
      services: services
        .filter(({ image }) => image !== '')
        .map(({ name: _, ...service }) => ({ ...service, env: resolve(service.env) })),
      env: resolve(declared),
      runsTests: mentionsTests(id, toText(job.name), ...steps.map(({ run }) => toText(run))),
    }
  })
}

const rankStep = ({ run }: ValueTable): number => (mentionsTests(toText(run)) ? 1 : 0)

type GithubService = DeclaredService & { name: string }

/** A job in a container reaches a service by its name, other jobs through a port of the machine. */
function readGithubService(name: string, value: Value, job: ValueTable): GithubService {
  const service = toTable(value)
  const [, published] = /^(?:[\d.]+:)?(\d{1,5}):\d{1,5}(?:\/tcp)?$/.exec(toText(toList(service.ports)[0])) ?? []
  const isInContainer = job.container !== undefined && job.container !== null
  return {
    name,
    image: typeof value === 'string' ? value : toText(service.image),
    port: published === undefined || isInContainer ? null : Number(published),
    hosts: isInContainer ? [name] : [],
    env: toTexts(service.env),
  }
}

const EXPRESSION = /\$\{\{\s*([^{}]{1,200}?)\s*\}\}/g

/**
 * Resolves expressions: ports of services and variables have their value; a secret has its name, which is the same
 * wherever it is used. A variable with any other expression is left out.
 */
function createGithubResolver(declared: Texts, services: readonly GithubService[]): (texts: Texts) => Texts {
  const evaluate = (expression: string): string | undefined => {
    const [, service, port] = /^job\.services\.([\w-]+)\.ports\[['"]?(\d{1,5})['"]?\]$/.exec(expression) ?? []
    if (service !== undefined) return String(services.find(({ name }) => name === service)?.port ?? port)
    const [, variable] = /^env\.(\w+)$/.exec(expression) ?? []
    if (variable !== undefined && !declared[variable]?.includes('${{')) return declared[variable]
    return /^secrets\.(\w+)$/.exec(expression)?.[1]
  }
  return (texts) => replaceAll(texts, EXPRESSION, evaluate)
}

const REPLACED_MAX = 20

/** Replaces what a pattern matches in each value. Leaves out values in which something cannot be replaced. */
const replaceAll = (texts: Texts, pattern: RegExp, find: (name: string) => string | undefined): Texts =>
  Object.fromEntries(
    Object.entries(texts).flatMap(([name, text]) => {
      const parts = [...text.matchAll(pattern)].map(([, one, other]) => find(one ?? other ?? ''))
      if (parts.includes(undefined) || parts.length > REPLACED_MAX) return []
      let at = 0
      return [[name, text.replaceAll(pattern, () => parts[at++] ?? '')]]
    }),
  )

/** Keys of a GitLab file that are not jobs. */
const GITLAB_KEYS = new Set(['default', 'include', 'stages', 'variables', 'workflow', 'image', 'services', 'cache'])
const EXTENDS_MAX = 10

function listGitlabJobs(file: ValueTable): CiJob[] {
  const defaults = toTable(file.default)
  return Object.entries(file)
    .filter(([name, job]) => !name.startsWith('.') && !GITLAB_KEYS.has(name) && isTable(job))
    .map(([name, value]) => {
      const job = extendJob(file, toTable(value), EXTENDS_MAX)
      const env = expandVariables({ ...toVariables(file.variables), ...toVariables(job.variables) })
      const services = toList(job.services ?? defaults.services ?? file.services)
      const lines = [job.script, job.before_script].flatMap((part) => toList(part).map(toText).concat(toText(part)))
      return {
        services: services.map((service) => readGitlabService(service, env)).filter(({ image }) => image !== ''),
        env,
        runsTests: mentionsTests(name, toText(job.stage), ...lines),
      }
    })
}

/** Merges the templates that a job names; later ones take precedence, and the job itself most of all. */
function extendJob(file: ValueTable, job: ValueTable, depth: number): ValueTable {
  const names = typeof job.extends === 'string' ? [job.extends] : toList(job.extends).map(toText)
  if (depth === 0 || names.length === 0) return job
  const parents = names
    .slice(0, EXTENDS_MAX)
    .map((name) => extendJob(file, toTable(file[name]), Math.min(depth - 1, 3)))
  const layers = [...parents, job]
  const variables = Object.assign({}, ...layers.map((layer) => toTable(layer.variables)))
  return { ...Object.assign({}, ...layers), variables }
}

/** A variable is a text, or a table with the text and a description. */
const toVariables = (value: Value | undefined): Texts =>
  Object.fromEntries(
    Object.entries(toTable(value)).map(([name, each]) => [name, isTable(each) ? toText(each.value) : toText(each)]),
  )

const REFERENCE = /\$(?:(\w+)|\{(\w+)\})/g
const ROUNDS = 3

/** Expands references between variables. Those that only CI knows leave their variable out. */
function expandVariables(texts: Texts): Texts {
  let expanded = texts
  for (let round = 0; round < ROUNDS; round += 1) {
    const known = expanded
    expanded = replaceAll(known, REFERENCE, (name) => ((known[name] ?? '').length > 500 ? undefined : known[name]))
  }
  return expanded
}

/** A service is reached by its alias, and by the name of its image in two spellings. */
function readGitlabService(value: Value, env: Texts): DeclaredService {
  const service = toTable(value)
  const image = expandText(typeof value === 'string' ? value : toText(service.name), env)
  const name = image.replace(/@.*$/s, '').replace(/:[^/]*$/, '')
  const aliases = toText(service.alias)
    .split(/[ ,]+/)
    .filter((alias) => alias !== '')
  return {
    image,
    port: null,
    hosts: [...new Set([...aliases, name.replaceAll('/', '-'), name.replaceAll('/', '__')])].slice(0, 5),
    env: { ...env, ...expandVariables({ ...env, ...toVariables(service.variables) }) },
  }
}

/** Keeps references that cannot be expanded: only the name of an image matters, and versions are often variables. */
const expandText = (text: string, env: Texts): string =>
  text.replaceAll(REFERENCE, (all, one, other) => env[one ?? other] ?? all)
