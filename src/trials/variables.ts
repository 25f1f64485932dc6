import type { EnvVar, Template } from '../harbor/task.ts'

export type TaskVariables = Record<string, string>

/** Thrown when the task requires a variable that was not set. */
export class VariableMissing extends Error {
  override name = 'VariableMissing'
}

/** Fills variables with the values given for this trial, never with those of this process's environment. */
export const fillEnv = (env: EnvVar[], variables: TaskVariables): Record<string, string> =>
  Object.fromEntries(env.map(({ name, value }) => [name, fillTemplate(value, variables)]))

export const fillTemplate = (template: Template, variables: TaskVariables): string =>
  template
    .map((part) => {
      if (typeof part === 'string') return part
      const value = variables[part.variable] ?? part.fallback
      if (value === null) throw new VariableMissing(`The task needs a value for ${part.variable}.`)
      return value
    })
    .join('')

/** Adds the variables that Harbor provides to compose files. */
export const addComposeVariables = (variables: TaskVariables): TaskVariables => ({
  TEST_DIR: '/tests',
  ENV_VERIFIER_LOGS_PATH: '/logs/verifier',
  ENV_AGENT_LOGS_PATH: '/logs/agent',
  ENV_ARTIFACTS_PATH: '/logs/artifacts',
  ...variables,
})
