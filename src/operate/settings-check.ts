import { type Config, type ConfigEnvironment, ConfigError, readConfig, settingNames } from '../config.ts'
import { type Diagnosis, fail, note, pass } from './machine-checks.ts'

/** Variables of the command line, of the tests and of providers. They are no settings of the service, but valid. */
const OTHERS = /^ASSAY_(URL|KEY|REQUIRE|TEST_\w+|GATEWAY_UPSTREAM_\w+)$/

export function examineSettings(environment: ConfigEnvironment): {
  config: Config | undefined
  diagnoses: Diagnosis[]
} {
  const unknown = unknownNames(environment).map(pointOut)
  try {
    const config = readConfig(environment)
    return { config, diagnoses: [pass('settings', 'valid'), ...unknown] }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const lines = error.message.split('\n')
    const fix = 'Correct the setting and run the check again: most other checks need valid settings.'
    return { config: undefined, diagnoses: [...lines.map((line) => fail('settings', line, fix)), ...unknown] }
  }
}

const unknownNames = (environment: ConfigEnvironment): string[] =>
  Object.keys(environment).filter(
    (name) => name.startsWith('ASSAY_') && !settingNames.includes(name) && !OTHERS.test(name),
  )

function pointOut(name: string): Diagnosis {
  const [nearest] = settingNames
    .filter((known) => known.startsWith('ASSAY_'))
    .sort((a, b) => distance(name, a) - distance(name, b))
  const detail = `${name} is not a setting of this version and has no effect`
  return note('settings', detail, `Remove it, or did you mean ${nearest}?`)
}

/** Returns the Levenshtein distance. */
export function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (const [line, letter] of [...from].entries()) {
    const next = [line + 1]
    for (const [column, other] of [...to].entries()) {
      const change = (row[column] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(change, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
