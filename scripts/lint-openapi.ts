import { createConfig, lint } from '@redocly/openapi-core'

/** Changes to the set `recommended` of Redocly's rules. */
const RULES = {
  // The document in docs/ has an example address. Each service replaces it with its own.
  'no-server-example.com': 'off',
  'parameter-description': 'error',
  'operation-description': 'error',
  'tag-description': 'error',
} as const

/** Lists violations of the lint rules in an OpenAPI document. */
export async function lintOpenApi(path: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'], rules: RULES })
  const problems = await lint({ ref: path, config })
  return problems.map(({ ruleId, message, location }) => `${location[0]?.pointer ?? path}: ${message} (${ruleId})`)
}
