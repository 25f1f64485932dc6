import type { NamedConfiguration } from '../configurations/schema.ts'

/** The columns of a setting that describe its configuration. All are null for a setting without one. */
type ConfigurationColumns = {
  configuration: string | null
  configuration_version: number | null
  configuration_digest: string | null
}

/** Returns the configuration of a setting as the API names it. */
export function toNamedConfiguration(row: ConfigurationColumns): NamedConfiguration | undefined {
  const { configuration: name, configuration_version: version, configuration_digest: digest } = row
  return name === null || version === null || digest === null ? undefined : { name, version, digest }
}
