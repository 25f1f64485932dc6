import type { Outline } from '../../resolve.ts'
import type { EnvVar } from '../../task.ts'
import { variablesOf } from '../../template.ts'
import { servicesOf } from '../compose-services.ts'
import { type AskedVariable, variablesAsked } from '../compose-variables.ts'
import type { Found, Rule } from '../rule.ts'
import { isOwnSecret, isSecretName } from '../secret-names.ts'
import type { View } from '../view.ts'

/** What Harbor hands to every compose file. */
const HANDED_OVER =
  /^(?:MAIN_IMAGE_NAME|PREBUILT_IMAGE_NAME|CONTEXT_DIR|CPUS|MEMORY|NETWORK_MODE|TEST_DIR|(?:HOST|ENV)_(?:VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH)$/

const isSecret = ({ name, hasFallback }: AskedVariable): boolean =>
  isOwnSecret(name) || (isSecretName(name) && !hasFallback)

function undeclared(view: View): Found[] {
  const declared = new Set(view.environments.flatMap(({ env }) => env.map(({ name }) => name)))
  // A service's own variable in its own command is a dollar too few, and no question to the host.
  const own = new Set(servicesOf(view).flatMap(({ settings }) => namesOf(settings.environment)))
  return (
    variablesAsked(view)
      .filter((asked) => !HANDED_OVER.test(asked.name) && !asked.hasFallback && !isSecret(asked))
      // What is mounted has a rule of its own.
      .filter(({ path }) => !/\.volumes\.\d+(?:\.|$)/.test(path))
      .filter(({ name, path }) => !declared.has(name) && !(own.has(name) && !path.includes('.environment.')))
      .map(({ path, name }) => ({
        path,
        detail: `${name} would come from the runner, and task.toml does not declare it.`,
      }))
  )
}

function namesOf(environment: unknown): string[] {
  if (Array.isArray(environment)) return environment.map((entry) => String(entry).split('=', 1)[0] ?? '')
  return typeof environment === 'object' && environment !== null ? Object.keys(environment) : []
}

const detailOf = (name: string): string => `It asks for ${name} of whoever runs the task, where the agent can read it.`

const secretVariables = (view: View): Found[] => [
  ...variablesAsked(view)
    .filter(isSecret)
    .map(({ path, name }) => ({ path, detail: detailOf(name) })),
  ...view.environments
    .filter(({ folder }) => folder === 'environment')
    .flatMap(({ env }) => askedBy(env, 'environment.env'))
    .filter(isSecret)
    .map(({ path, name }) => ({ path, detail: detailOf(name) })),
]

const askedBy = (env: EnvVar[], path: string): AskedVariable[] =>
  env.flatMap(({ name, value }) =>
    variablesOf(value).map(({ variable, fallback }) => ({
      path: `${path}.${name}`,
      name: variable,
      hasFallback: (fallback ?? '') !== '',
    })),
  )

/** Of the verifier, the solution and headers: the owner of the value decides whether to give it. */
const requested = ({ outline }: View): Found[] =>
  outline ? outsideTheAgent(outline).map(({ path, name }) => ({ path, detail: `It asks for ${name}.` })) : []

const outsideTheAgent = ({ steps, solutionEnv, environment }: Outline): AskedVariable[] => [
  ...steps.flatMap(({ verifier }) => askedBy(verifier.env, 'verifier.env')),
  ...askedBy(solutionEnv, 'solution.env'),
  ...environment.mcpServers.flatMap((server) =>
    server.transport === 'stdio' ? [] : askedBy(server.headers, `environment.mcp_servers.${server.name}.headers`),
  ),
  ...askedBy(environment.env, 'environment.env').filter((asked) => !isSecret(asked)),
]

export const variableRules: Rule[] = [
  {
    id: 'compose_variables',
    severity: 'block',
    what: 'a variable in a compose file that task.toml does not declare and that has no fallback',
    check: undeclared,
  },
  {
    id: 'secret_variables',
    severity: 'block',
    what: 'a variable that puts a secret of the runner where the agent can read it',
    check: secretVariables,
  },
  {
    id: 'requested_variables',
    severity: 'warn',
    what: 'values that the task asks for and that somebody must give',
    check: requested,
  },
]
