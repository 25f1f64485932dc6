import type { Command } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { AuditEvent } from '../src/workspaces/schema.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService } from './service.ts'
import { printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'

export const addAuditCommands = (assay: Command, shell: Shell): Command =>
  withExample(
    assay
      .command('audit')
      .description('Show audit events, newest first')
      .helpCommand(false)
      .option('--limit <number>', 'Maximum number of events', '50')
      .action((flags: { limit: string }, command: Command) => list(shell, command, flags.limit)),
    'assay audit --limit 500 --json',
  )

async function list(shell: Shell, command: Command, limit: string): Promise<void> {
  if (!/^[1-9]\d{0,6}$/.test(limit)) throw new WrongUse('--limit must be a number from 1 to 9999999.')
  const { listAudit } = await import('../src/workspaces/schema.ts')
  const service = await openService(shell, command)
  const { items: events, nextCursor } = await collectPages(async (query) => {
    const { body } = await call(service, listAudit, { params: { org: service.org }, query })
    return { items: body.events, nextCursor: body.nextCursor }
  }, Number(limit))
  if (service.json) return printJson(shell, { events, nextCursor })
  printTable<AuditEvent>(shell, events, [
    ['TIME', (event) => formatTime(event.at, '-')],
    ['ACTOR', (event) => event.actor],
    ['ACTION', (event) => event.action],
    ['SUBJECT', (event) => event.subject],
    ['DETAIL', (event) => formatDetail(event.detail)],
  ])
}

const formatDetail = (detail: Record<string, string>): string =>
  Object.entries(detail)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
