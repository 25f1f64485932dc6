import { type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { Key } from '../src/workspaces/schema.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService, requireId } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'

export function addKeysCommands(assay: Command, shell: Shell): Command {
  const keys = assay.command('keys').description('Manage API keys').helpCommand(false)
  withExample(
    keys
      .command('list')
      .description('List the keys of the workspace')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay keys list',
    'assay keys list --json | jq -r ".keys[].id"',
  )
  withExample(
    keys
      .command('create')
      .description('Create a key and print it once')
      .argument('<name>', 'Name of the key')
      .addOption(
        new Option('--permission <permission>', 'Permission of the key')
          .choices(['read', 'write', 'admin'])
          .makeOptionMandatory(),
      )
      .option('--expires <when>', 'Expiry: 12h, 30d, 8w, or a UTC date such as 2030-12-31 (default: never)')
      .action((name: string, flags: CreateKeyFlags, command: Command) => create(shell, command, { name, ...flags })),
    'assay keys create "continuous integration" --permission write --expires 90d',
  )
  withExample(
    keys
      .command('revoke')
      .description('Revoke a key immediately')
      .argument('<id>', 'Id from `assay keys list`')
      .action((id: string, _flags: object, command: Command) => revoke(shell, command, id)),
    'assay keys revoke 01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11',
  )
  return keys
}

async function list(shell: Shell, command: Command): Promise<void> {
  const { listKeys } = await import('../src/workspaces/schema.ts')
  const service = await openService(shell, command)
  const { items: keys, nextCursor } = await collectPages(async (query) => {
    const { body } = await call(service, listKeys, { params: { org: service.org }, query })
    return { items: body.keys, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { keys, nextCursor })
  printTable<Key>(shell, keys, [
    ['ID', (key) => key.id],
    ['NAME', (key) => key.name],
    ['PERMISSION', (key) => key.permission],
    ['KEY', (key) => `…${key.last4}`],
    ['CREATED', (key) => formatTime(key.createdAt, '-')],
    ['EXPIRES', (key) => formatTime(key.expiresAt, 'never')],
    ['LAST USED', (key) => formatTime(key.lastUsedAt, 'never')],
  ])
}

type CreateKeyFlags = { permission: Key['permission']; expires?: string }

async function create(shell: Shell, command: Command, flags: CreateKeyFlags & { name: string }): Promise<void> {
  const { name, permission } = flags
  const expiresAt = flags.expires === undefined ? null : parseExpiry(flags.expires, new Date())
  const { createKey } = await import('../src/workspaces/schema.ts')
  const service = await openService(shell, command)
  const body = { name, permission, expiresAt }
  const { body: key } = await call(service, createKey, { params: { org: service.org }, body })
  if (service.json) return printJson(shell, key)
  const end = key.expiresAt === null ? '' : `, until ${formatTime(key.expiresAt, '')}`
  note(shell, `The key "${key.name}" (${key.permission}${end}), shown only once:`)
  print(shell, key.key)
}

async function revoke(shell: Shell, command: Command, id: string): Promise<void> {
  const keyId = requireId(id, 'assay keys list')
  const { deleteKey } = await import('../src/workspaces/schema.ts')
  const service = await openService(shell, command)
  await call(service, deleteKey, { params: { org: service.org, keyId } })
  note(shell, `Revoked the key ${keyId}.`)
}

const HOUR_MS = 3_600_000
const UNITS_MS: Record<string, number> = { h: HOUR_MS, d: 24 * HOUR_MS, w: 7 * 24 * HOUR_MS }
/** Matches a date, or a date and time with a time zone. */
const ISO_DATE_OR_TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Parses `12h`, `30d`, `8w` from now, or an ISO 8601 date or time. A date starts at midnight UTC. */
export function parseExpiry(text: string, now: Date): string {
  const [, amount, unit = ''] = /^(\d{1,5})([hdw])$/.exec(text) ?? []
  const expiresAtMs = amount ? now.getTime() + Number(amount) * (UNITS_MS[unit] ?? 0) : parseDate(text)
  if (Number.isNaN(expiresAtMs))
    throw new WrongUse('--expires must be a duration such as 12h, 30d, 8w, or a date such as 2030-12-31.')
  return new Date(expiresAtMs).toISOString()
}

const parseDate = (text: string): number =>
  ISO_DATE_OR_TIME.test(text) && isExistingDay(text) ? Date.parse(text) : Number.NaN

/** Returns false for days such as February 31, which JavaScript accepts as a day in March. */
const isExistingDay = (text: string): boolean => {
  const day = text.slice(0, 10)
  return !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day)
}
