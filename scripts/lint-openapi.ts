import { createConfig, lint } from '@redocly/openapi-core'

/** Rules of Redocly beyond `recommended`, all of which count. */
const RULES = {
  // The document in docs/ has no address of its own; a service puts in its own.
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
