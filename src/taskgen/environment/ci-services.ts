import { services as knownServices, type ServiceUse } from '../../grading/services/services.ts'
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
export function readCiServices({ texts }: TreeFacts): CiServices {
  const { jobs, unreadable } = listCiJobs(texts)
  const resolved = jobs.map(resolveJob)
  const [best] = resolved.toSorted((one, other) => rankJob(one) - rankJob(other))
  const unsupported = [...(best?.unsupported ?? []), ...unreadable].slice(0, SERVICES_MAX).map(sanitizeText)
  return { uses: best?.uses ?? [], env: best?.env ?? {}, unsupported }
}

type ResolvedJob = CiServices & { runsTests: boolean }

/** Ranks jobs: those that run tests come first; of these, the ones whose services are supported. */
const rankJob = ({ runsTests, unsupported }: ResolvedJob): number =>
  (runsTests ? 0 : NO_TESTS_RANK) + unsupported.length

/** Greater than the number of unsupported services of any job. */
const NO_TESTS_RANK = 1000

function resolveJob({ services: declared, env, runsTests }: CiJob): ResolvedJob {
  const resolved = declared.slice(0, SERVICES_MAX).map(resolveService)
  const uses = resolved.flatMap((each) => (typeof each === 'string' ? [] : [each]))
  const unsupported = resolved.flatMap((each) => (typeof each === 'string' ? [each] : []))
  const isFirstOnPort = ({ port }: ServiceUse, index: number) =>
    uses.findIndex((other) => other.port === port) === index
  const clash = uses.find((use, index) => !isFirstOnPort(use, index))
  if (clash) unsupported.push(`${clash.image}: port ${clash.port} is used twice`)
  const distinct = uses.filter(isFirstOnPort)
  return { uses: distinct, unsupported, env: selectVariables(env, distinct), runsTests }
}

const PORT_MIN = 1024
const PORT_MAX = 65_535
const HOST = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/i
/** Values that fit on one line of a script. */
const VALUE = /^[^\p{Cc}]{0,500}$/u

/** Returns the server that stands for a declared service, or the reason why none can be provided. */
function resolveService({ image, port, hosts, env }: DeclaredService): ServiceUse | string {
  if (image.length > IMAGE_LENGTH_MAX) return `${image.slice(0, 100)}…: the name of the image is too long`
  const name = toImageName(image)
  const service = knownServices.find((each) => each.image.test(name))
  if (service === undefined) return `${image}: no such server is available here`
  const usedPort = port ?? service.port
  if (!Number.isInteger(usedPort) || usedPort < PORT_MIN || usedPort > PORT_MAX)
    return `${image}: invalid port ${usedPort}`
  if (!Object.values(env).every((value) => VALUE.test(value))) return `${image}: the value of a variable is too long`
  const fault = service.findFault(env)
  if (fault !== undefined) return `${image}: ${fault}`
  return { service: service.id, image, port: usedPort, hosts: hosts.filter(isServiceHost), env }
}

/** Returns true for a host name that only the service has: neither an address nor that of this machine. */
const isServiceHost = (host: string): boolean => HOST.test(host) && !/^localhost$|^[\d.]+$/i.test(host)

const PUBLIC_REGISTRIES =
  /^(?:docker\.io|registry\.hub\.docker\.com|index\.docker\.io|public\.ecr\.aws\/docker|quay\.io)\//

const IMAGE_LENGTH_MAX = 300

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
/** Matches a loopback host, alone, with a port or in a URL. File paths do not match: programs may load code from them. */
const LOOPBACK =
  /^(?:[a-z][a-z0-9+.-]{0,30}:\/\/(?:[^/@\s]{0,200}@)?)?(?:localhost|127\.0\.0\.1)(?::\d{1,5})?(?:[/?][^\s]*)?$/i
/** Variables that load code, redirect traffic or belong to the image. */
const EXCLUDED_NAME =
  /^(?:LD_|DYLD_|OPENSSL_|GCONV_|LOCPATH$|GIT_|BASH_ENV$|ENV$|PATH$|HOME$|TMPDIR$|PYTHON|NODE_|PERL|RUBY|JAVA_|JDK_)|PROXY$/i
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
      .filter(([name, value]) => VARIABLE.test(name) && !EXCLUDED_NAME.test(name) && VALUE.test(value))
      .filter(([name, value]) => refersToService(name, value))
      .slice(0, VARIABLES_MAX),
  )
}

/** A job of a CI file that declares services. Expressions in its values are resolved as far as possible. */
type CiJob = {
  services: DeclaredService[]
  /** Variables of the job, except those whose value is only known in CI. */
  env: Record<string, string>
  /** True if the job seems to run tests. */
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
  const files = [...texts]
    .filter(([, text]) => DECLARES_SERVICES.test(text))
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(toCiFiles)
    .slice(0, FILES_MAX)
    .map(readCiFile)
  return {
    jobs: files.flatMap(({ jobs }) => jobs).filter(({ services }) => services.length > 0),
    unreadable: files.flatMap(({ fault }) => fault ?? []),
  }
}

/** Limits of what is read, which would otherwise multiply: variables are expanded for each service of each job. */
const FILES_MAX = 10
const JOBS_MAX = 10

const DECLARES_SERVICES = /\bservices["']?:/

type CiFile = { path: string; text: string; listJobs: (file: ValueTable) => CiJob[] }

function toCiFiles([path, text]: [string, string]): CiFile[] {
  const [, listJobs] = CI_FORMATS.find(([pattern]) => pattern.test(path)) ?? []
  return listJobs === undefined ? [] : [{ path, text, listJobs }]
}

function readCiFile({ path, text, listJobs }: CiFile): { jobs: CiJob[]; fault?: string } {
  const report = createReport()
  const file = parseYaml(text, path, report)
  if (isTable(file)) return { jobs: listJobs(file) }
  return { jobs: [], fault: `${path}: ${report.refusals[0]?.message ?? 'The file is not a table.'}` }
}

/** Values of variables, by name. */
type Variables = Record<string, string>

const toTable = (value: Value | undefined): ValueTable => (isTable(value) ? value : {})
const toList = (value: Value | undefined): Value[] => (Array.isArray(value) ? value : [])
const toText = (value: Value | undefined): string => (typeof value === 'string' ? value : '')

/** Maximum length of names and values, so that patterns run on bounded input. Longer ones are of no use. */
const VALUE_LENGTH_MAX = 2000
const DECLARED_VARIABLES_MAX = 100
const toShortText = (value: Value | undefined): string => toText(value).slice(0, VALUE_LENGTH_MAX)
/** Reads the variables of a table. Leaves out long values, and all variables after the first hundred. */
const toVariables = (value: Value | undefined): Variables =>
  Object.fromEntries(
    Object.entries(toTable(value))
      .map(([name, each]): [string, string] => [name, toText(isTable(each) ? each.value : each)])
      .filter(([, text]) => text.length <= VALUE_LENGTH_MAX)
      .slice(0, DECLARED_VARIABLES_MAX),
  )

const TEST_WORDS =
  /\btests?\b|_tests?\b|\btest[-_]|\b(?:pytest|tox|nox|rspec|phpunit|pest|jest|vitest|mocha|ctest|gradlew?|mvnw?)\b/i
const SEARCHED_LENGTH_MAX = 20_000
const mentionsTests = (...texts: string[]): boolean =>
  texts.some((text) => TEST_WORDS.test(text.slice(0, SEARCHED_LENGTH_MAX)))

function listGithubJobs(workflow: ValueTable): CiJob[] {
  const jobs = Object.entries(toTable(workflow.jobs)).map(([id, value]) => ({ id, job: toTable(value) }))
  const withServices = jobs.filter(({ job }) => Object.keys(toTable(job.services)).length > 0)
  return withServices.slice(0, JOBS_MAX).map(({ id, job }) => {
    const declaredServices = Object.entries(toTable(job.services)).slice(0, SERVICES_MAX)
    const services = declaredServices.map(([name, each]) => readGithubService(name, each, job))
    const steps = toList(job.steps).map(toTable)
    // Variables of the steps that run tests take precedence.
    const ordered = steps.toSorted((one, other) => rankStep(one) - rankStep(other))
    const declared = Object.assign(
      {},
      toVariables(workflow.env),
      toVariables(job.env),
      ...ordered.map((step) => toVariables(step.env)),
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

/** Reads a service of GitHub Actions. A job in a container reaches it by its name, other jobs by a port of the machine. */
function readGithubService(name: string, value: Value, job: ValueTable): GithubService {
  const service = toTable(value)
  const [, published] = /^(?:[\d.]+:)?(\d{1,5}):\d{1,5}(?:\/tcp)?$/.exec(toText(toList(service.ports)[0])) ?? []
  const isInContainer = job.container !== undefined && job.container !== null
  return {
    name,
    image: toShortText(typeof value === 'string' ? value : service.image),
    port: published === undefined || isInContainer ? null : Number(published),
    hosts: isInContainer ? [name] : [],
    env: toVariables(service.env),
  }
}

const EXPRESSION = /\$\{\{([^{}]{1,200})\}\}/g

/**
 * Resolves expressions: ports of services and variables have their value; a secret has its name, which is the same
 * wherever it is used. A variable with any other expression is left out.
 */
function createGithubResolver(
  declared: Variables,
  services: readonly GithubService[],
): (variables: Variables) => Variables {
  const evaluate = (text: string): string | undefined => {
    const expression = text.trim()
    const [, service, port] = /^job\.services\.([\w-]+)\.ports\[['"]?(\d{1,5})['"]?\]$/.exec(expression) ?? []
    if (service !== undefined) return String(services.find(({ name }) => name === service)?.port ?? port)
    const [, variable] = /^env\.(\w+)$/.exec(expression) ?? []
    if (variable !== undefined && !declared[variable]?.includes('${{')) return declared[variable]
    return /^secrets\.(\w+)$/.exec(expression)?.[1]
  }
  return (variables) => replaceReferences(variables, EXPRESSION, evaluate)
}

const REPLACED_MAX = 20

/** Replaces the references that a pattern matches in each value. Leaves out variables with an unknown reference. */
const replaceReferences = (
  variables: Variables,
  pattern: RegExp,
  find: (reference: string) => string | undefined,
): Variables =>
  Object.fromEntries(
    Object.entries(variables).flatMap(([name, text]) => {
      const replacements = [...text.matchAll(pattern)].map(([, one, other]) => find(one ?? other ?? ''))
      if (replacements.includes(undefined) || replacements.length > REPLACED_MAX) return []
      const inOrder = replacements.values()
      return [[name, text.replaceAll(pattern, () => inOrder.next().value ?? '')]]
    }),
  )

/** Keys of a GitLab file that are not jobs. */
const GITLAB_KEYS = new Set(['default', 'include', 'stages', 'variables', 'workflow', 'image', 'services', 'cache'])
const EXTENDS_MAX = 10

function listGitlabJobs(file: ValueTable): CiJob[] {
  const defaults = toTable(file.default)
  const extend = createExtender(file)
  return Object.entries(file)
    .filter(([name, job]) => !name.startsWith('.') && !GITLAB_KEYS.has(name) && isTable(job))
    .map(([name, value]) => ({ name, job: extend(toTable(value)) }))
    .map(({ name, job }) => ({ name, job, services: toList(job.services ?? defaults.services ?? file.services) }))
    .filter(({ services }) => services.length > 0)
    .slice(0, JOBS_MAX)
    .map(({ name, job, services }) => {
      const env = expandVariables({ ...toVariables(file.variables), ...toVariables(job.variables) })
      const lines = [job.script, job.before_script].flatMap((part) => toList(part).map(toText).concat(toText(part)))
      return {
        services: services
          .slice(0, SERVICES_MAX)
          .map((service) => readGitlabService(service, env))
          .filter(({ image }) => image !== ''),
        env,
        runsTests: mentionsTests(name, toText(job.stage), ...lines),
      }
    })
}

/**
 * Returns a function that merges the templates that a job names; later ones take precedence, and the job itself most of
 * all. Each template is merged once, because templates that name each other often would multiply.
 */
function createExtender(file: ValueTable): (job: ValueTable) => ValueTable {
  const merged = new Map<string, ValueTable>()
  const loadTemplate = (name: string): ValueTable => {
    const known = merged.get(name)
    if (known) return known
    merged.set(name, {}) // ends the recursion if templates name each other in a circle
    const template = extend(toTable(file[name]))
    merged.set(name, template)
    return template
  }
  const extend = (job: ValueTable): ValueTable => {
    const names = typeof job.extends === 'string' ? [job.extends] : toList(job.extends).map(toText)
    if (names.length === 0) return job
    const layers = [...names.slice(0, EXTENDS_MAX).map(loadTemplate), job]
    const variables = Object.assign({}, ...layers.map((layer) => toTable(layer.variables)))
    return { ...Object.assign({}, ...layers), variables }
  }
  return extend
}

const REFERENCE = /\$(?:(\w+)|\{(\w+)\})/g
/** Maximum depth of references between variables. */
const EXPANSION_ROUNDS = 3

/** Maximum length of a value that is inserted into another one. */
const EXPANDED_LENGTH_MAX = 500

/** Expands references between variables. A variable that refers to one that only CI knows is left out. */
function expandVariables(variables: Variables): Variables {
  let expanded = variables
  for (let round = 0; round < EXPANSION_ROUNDS; round += 1) {
    const known = expanded
    expanded = replaceReferences(known, REFERENCE, (name) => {
      const value = known[name] ?? ''
      return value.length > EXPANDED_LENGTH_MAX ? undefined : known[name]
    })
  }
  return expanded
}

const HOSTS_MAX = 5

/** Reads a service of GitLab, which is reached by its alias and by the name of its image in two spellings. */
function readGitlabService(value: Value, env: Variables): DeclaredService {
  const service = toTable(value)
  const variables = toVariables(service.variables)
  const image = expandText(toShortText(typeof value === 'string' ? value : service.name), env).slice(
    0,
    VALUE_LENGTH_MAX,
  )
  const name = image.replace(/@.*$/s, '').replace(/:[^/]*$/, '')
  const aliases = toShortText(service.alias)
    .split(/[ ,]+/)
    .filter((alias) => alias !== '')
  return {
    image,
    port: null,
    hosts: [...new Set([...aliases, name.replaceAll('/', '-'), name.replaceAll('/', '__')])].slice(0, HOSTS_MAX),
    env: Object.keys(variables).length === 0 ? env : { ...env, ...expandVariables({ ...env, ...variables }) },
  }
}

/** Expands the name of an image. Keeps unknown references: versions are often variables, and only the name matters. */
const expandText = (text: string, env: Variables): string =>
  text.replaceAll(REFERENCE, (all, one, other) => env[one ?? other] ?? all)
