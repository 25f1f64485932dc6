import { isTable, type Value } from '../../fields.ts'
import type { TaskOutline } from '../../resolve.ts'
import type { EnvVar } from '../../task.ts'
import { variablesOf } from '../../template.ts'
import { listRawServices, listServicesIn } from '../compose-services.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import { memoize, type TaskView, type UsedCompose } from '../view.ts'

/** Variables that Harbor sets for every compose file. */
const SUPPLIED_BY_HARBOR =
  /^(?:MAIN_IMAGE_NAME|PREBUILT_IMAGE_NAME|CONTEXT_DIR|CPUS|MEMORY|NETWORK_MODE|TEST_DIR|(?:HOST|ENV)_(?:VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH)$/

const isSecret = ({ name, hasFallback }: VariableReference): boolean =>
  isRunnerSecret(name) || (isSecretName(name) && !hasFallback)

function matchUndeclared(view: TaskView): RuleMatch[] {
  const declared = new Set(view.environments.flatMap(({ env }) => env.map(({ name }) => name)))
  // A command that uses `$NAME` of its service's own environment means `$$NAME`. It does not refer to the runner.
  const serviceVariables = new Set(listRawServices(view).flatMap(({ settings }) => listNames(settings.environment)))
  return (
    listComposeVariables(view)
      .filter((variable) => !SUPPLIED_BY_HARBOR.test(variable.name) && !variable.hasFallback && !isSecret(variable))
      // Mounts have their own rule.
      .filter(({ path }) => !/\.volumes\.\d+(?:\.|$)/.test(path))
      .filter(
        ({ name, path }) => !declared.has(name) && !(serviceVariables.has(name) && !path.includes('.environment.')),
      )
      .map(({ path, name }) => ({
        path,
        detail: `${name} would come from the runner. Declare it in task.toml.`,
      }))
  )
}

function listNames(environment: unknown): string[] {
  if (Array.isArray(environment)) return environment.map((entry) => String(entry).split('=', 1)[0] ?? '')
  return typeof environment === 'object' && environment !== null ? Object.keys(environment) : []
}

const describeSecret = (name: string): string => `The runner’s ${name} would be readable by the agent.`

const matchSecretVariables = (view: TaskView): RuleMatch[] => [
  ...listComposeVariables(view)
    .filter(isSecret)
    .map(({ path, name }) => ({ path, detail: describeSecret(name) })),
  ...view.environments
    .filter(({ folder }) => folder === 'environment')
    .flatMap(({ env }) => listEnvReferences(env, 'environment.env'))
    .filter(isSecret)
    .map(({ path, name }) => ({ path, detail: describeSecret(name) })),
]

const listEnvReferences = (env: EnvVar[], path: string): VariableReference[] =>
  env.flatMap(({ name, value }) =>
    variablesOf(value).map(({ variable, fallback }) => ({
      path: `${path}.${name}`,
      name: variable,
      hasFallback: (fallback ?? '') !== '',
    })),
  )

/** Matches all variables that task.toml requests, except secrets in the agent's environment, which are refused. */
const matchRequested = ({ outline }: TaskView): RuleMatch[] =>
  outline
    ? listRequestedReferences(outline).map(({ path, name }) => ({
        path,
        detail: `The task requests the variable ${name}.`,
      }))
    : []

const listRequestedReferences = ({ steps, solutionEnv, environment }: TaskOutline): VariableReference[] => [
  ...steps.flatMap(({ verifier }) => listEnvReferences(verifier.env, 'verifier.env')),
  ...listEnvReferences(solutionEnv, 'solution.env'),
  ...environment.mcpServers.flatMap((server) =>
    server.transport === 'stdio'
      ? []
      : listEnvReferences(server.headers, `environment.mcp_servers.${server.name}.headers`),
  ),
  ...listEnvReferences(environment.env, 'environment.env').filter((variable) => !isSecret(variable)),
]

export const variableRules: SafetyRule[] = [
  {
    id: 'compose_variables',
    severity: 'block',
    description: 'a variable in a compose file that task.toml does not declare and that has no fallback',
    check: matchUndeclared,
  },
  {
    id: 'secret_variables',
    severity: 'block',
    description: 'a variable that puts a secret of the runner where the agent can read it',
    check: matchSecretVariables,
  },
  {
    id: 'requested_variables',
    severity: 'warn',
    description: 'variables that the task requests and that must be set to run it',
    check: matchRequested,
  },
]

/** A reference to a variable of the runner's environment. */
type VariableReference = { path: string; name: string; hasFallback: boolean }

const VARIABLE = /\$(?:\$|\{([A-Za-z_]\w*)(:?[-+?][^}]?)?|([A-Za-z_]\w*))/g

const listComposeVariables = memoize((view: TaskView): VariableReference[] => view.composes.flatMap(listVariablesIn))

const listVariablesIn = (compose: UsedCompose): VariableReference[] => [
  ...listInValue(compose.table, compose.path),
  ...listPassedThrough(compose),
]

function listInValue(value: Value, path: string): VariableReference[] {
  if (typeof value === 'string') return listInText(value, path)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, entry]) => listInValue(entry, `${path}.${key}`))
}

const listInText = (text: string, path: string): VariableReference[] =>
  [...text.matchAll(VARIABLE)].flatMap(([, braced, operator = '', bare]) => {
    const name = braced ?? bare
    return name === undefined ? [] : [{ path, name, hasFallback: /^:?-[^}]/.test(operator) }]
  })

/** Lists environment variables without a value, which are passed through from the runner. */
const listPassedThrough = (compose: UsedCompose): VariableReference[] =>
  listServicesIn(compose).flatMap(({ path, settings: { environment } }) => {
    if (Array.isArray(environment)) {
      return environment
        .filter((entry) => typeof entry === 'string')
        .filter((entry) => /^[A-Za-z_]\w*$/.test(entry))
        .map((name) => ({ path: `${path}.environment.${name}`, name, hasFallback: false }))
    }
    const names = isTable(environment) ? Object.keys(environment).filter((name) => environment[name] === null) : []
    return names.map((name) => ({ path: `${path}.environment.${name}`, name, hasFallback: false }))
  })

/** Names of the runner's credentials. References to them are refused even if they have a fallback. */
const RUNNER_SECRETS =
  /^(?:AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)|GOOGLE_APPLICATION_CREDENTIALS|AZURE_CLIENT_SECRET|GITHUB_TOKEN|GH_TOKEN|GITLAB_TOKEN|HF_TOKEN|HUGGING_FACE_HUB_TOKEN|NPM_TOKEN|CLAUDE_CODE_OAUTH_TOKEN|MODAL_TOKEN_(?:ID|SECRET)|SSH_AUTH_SOCK|DOCKER_HOST|DOCKER_AUTH_CONFIG|KUBECONFIG|VAULT_TOKEN|DATABASE_URL|ASSAY_(?:KEY|OPERATOR_KEY|BOOTSTRAP_KEY|SECRET_KEY\w*))$/

const SECRET_PARTS = new Set([
  'TOKEN',
  'SECRET',
  'SECRETS',
  'PASSWORD',
  'PASSWD',
  'CREDENTIAL',
  'CREDENTIALS',
  'APIKEY',
])

const isRunnerSecret = (name: string): boolean => RUNNER_SECRETS.test(name) || /_API_?KEY$/.test(name)

/** Returns true for the name of a secret, even if the secret may be the task's own. */
const isSecretName = (name: string): boolean =>
  isRunnerSecret(name) ||
  name.includes('PRIVATE_KEY') ||
  name.includes('ACCESS_KEY') ||
  name.split('_').some((part) => SECRET_PARTS.has(part))
