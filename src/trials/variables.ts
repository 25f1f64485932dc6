import type { EnvVar, Template } from '../harbor/task.ts'

export type Variables = Record<string, string>

/** The task asks for a value that nobody gave. */
export class VariableMissing extends Error {
  override name = 'VariableMissing'
}

/** Fills the open places from the values that were given for this trial; never from the environment of this process. */
export const filledEnv = (env: EnvVar[], variables: Variables): Record<string, string> =>
  Object.fromEntries(env.map(({ name, value }) => [name, filled(value, variables)]))

export const filled = (template: Template, variables: Variables): string =>
  template
    .map((part) => {
      if (typeof part === 'string') return part
      const value = variables[part.variable] ?? part.fallback
      if (value === null) throw new VariableMissing(`The task needs a value for ${part.variable}.`)
      return value
    })
    .join('')

/** What Harbor hands over to a compose file besides. */
export const composeVariables = (variables: Variables): Variables => ({
  TEST_DIR: '/tests',
  ENV_VERIFIER_LOGS_PATH: '/logs/verifier',
  ENV_AGENT_LOGS_PATH: '/logs/agent',
  ENV_ARTIFACTS_PATH: '/logs/artifacts',
  ...variables,
})
