import { CONFIG_FILE, readConfig } from './config.ts'
import { createReport } from './report.ts'
import type { Network } from './task.ts'
import { parseToml } from './toml-table.ts'

/** Lists the networks that a `task.toml` declares for the agent, one per step. Undefined if it cannot be read. */
export function readAgentNetworks(text: string): Network[] | undefined {
  const report = createReport()
  const table = parseToml(text, CONFIG_FILE, report)
  const config = table && readConfig(table, report)
  if (!config) return undefined
  const inherited = config.agent.network ?? config.environment.network
  return config.steps.length === 0 ? [inherited] : config.steps.map(({ agent }) => agent.network ?? inherited)
}
