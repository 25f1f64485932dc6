import { Argument, type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { Delivery, Webhook, WebhookEvent } from '../src/webhooks/schema.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'

const EXAMPLE_ID = '01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11'
const WEBHOOK = ['<webhook>', 'Id from `assay webhooks list`'] as const
const EVENT = ['--event <type...>', 'Only these events (default: all)'] as const

type WebhookFlags = { event?: WebhookEvent[]; description?: string }

export function addWebhooksCommands(assay: Command, shell: Shell): void {
  const webhooks = assay.command('webhooks').description('Manage webhooks').helpCommand(false)
  addChangeCommands(webhooks, shell)
  addReadCommands(webhooks, shell)
}

function addChangeCommands(webhooks: Command, shell: Shell): void {
  withExample(
    webhooks
      .command('add')
      .description('Add a webhook and print its signing secret once')
      .argument('<url>', 'URL of the receiver: https, with a public host')
      .option(...EVENT)
      .option('--description <text>', 'Display name')
      .action((url: string, flags: WebhookFlags, command: Command) => add(shell, command, { url, ...flags })),
    'assay webhooks add https://hooks.example.org/assay --event comparison.completed release.published',
  )
  withExample(
    webhooks
      .command('update')
      .description('Change the events of a webhook, enable or disable it, or rotate its secret')
      .argument(...WEBHOOK)
      .option(...EVENT)
      .option('--description <text>', 'Display name')
      .addOption(new Option('--enable', 'Enable deliveries').conflicts('disable'))
      .option('--disable', 'Disable deliveries')
      .option('--new-secret', 'Print a new secret; the old one stays valid for a day')
      .action((id: string, flags: UpdateWebhookFlags, command: Command) => update(shell, command, id, flags)),
    `assay webhooks update ${EXAMPLE_ID} --enable`,
  )
  withExample(
    webhooks
      .command('remove')
      .description('Remove a webhook and its deliveries')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => remove(shell, command, id)),
    `assay webhooks remove ${EXAMPLE_ID}`,
  )
}

function addReadCommands(webhooks: Command, shell: Shell): void {
  withExample(
    webhooks
      .command('list')
      .description('List the webhooks')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay webhooks list',
  )
  withExample(
    webhooks
      .command('test')
      .description('Send a test event (webhook.test)')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => test(shell, command, id)),
    `assay webhooks test ${EXAMPLE_ID}`,
  )
  withExample(
    webhooks
      .command('deliveries')
      .description('List the deliveries of a webhook, newest first')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => printDeliveries(shell, command, id)),
    `assay webhooks deliveries ${EXAMPLE_ID}`,
  )
  withExample(
    webhooks
      .command('redeliver')
      .description('Send a delivery again, with the same id')
      .argument(...WEBHOOK)
      .addArgument(new Argument('<delivery>', 'Id from `assay webhooks deliveries`'))
      .action((id: string, delivery: string, _flags: object, command: Command) =>
        redeliver(shell, command, id, delivery),
      ),
    `assay webhooks redeliver ${EXAMPLE_ID} 01981b3e-7a10-7c33-9d0e-4b5a6c7d8e9f`,
  )
}

const loadContract = () => import('../src/webhooks/schema.ts')
const toWebhookParams = ({ org }: Service, id: string) => ({ org, webhookId: requireId(id, 'assay webhooks list') })

/** Throws if an event does not exist. */
async function requireKnownEvents(events: readonly string[] | undefined): Promise<void> {
  const { EVENTS } = await loadContract()
  const unknown = events?.find((event) => !EVENTS.some((known) => known === event))
  if (unknown !== undefined) throw new WrongUse(`Unknown event ${unknown}. Available: ${EVENTS.join(', ')}.`)
}

async function add(shell: Shell, command: Command, { url, event, description }: WebhookFlags & { url: string }) {
  const { createWebhook } = await loadContract()
  await requireKnownEvents(event)
  const service = await openService(shell, command)
  const newWebhook = { url, events: event, description }
  const { body } = await call(service, createWebhook, { params: { org: service.org }, body: newWebhook })
  if (service.json) return printJson(shell, body)
  note(shell, `Added the webhook ${body.id}. Its signing secret, shown only once:`)
  print(shell, body.secret)
}

type UpdateWebhookFlags = WebhookFlags & { enable?: boolean; disable?: boolean; newSecret?: boolean }

async function update(shell: Shell, command: Command, id: string, flags: UpdateWebhookFlags): Promise<void> {
  const { updateWebhook } = await loadContract()
  await requireKnownEvents(flags.event)
  const changes = {
    events: flags.event,
    description: flags.description,
    enabled: flags.enable ?? (flags.disable ? false : undefined),
    newSecret: flags.newSecret ? (true as const) : undefined,
  }
  if (Object.values(changes).every((value) => value === undefined)) throw new WrongUse('Nothing to update. See --help.')
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { body } = await call(service, updateWebhook, { params: toWebhookParams(service, id), body: changes })
  if (service.json) return printJson(shell, body)
  note(shell, `Updated the webhook ${body.id}.`)
  if (body.secret !== undefined) print(shell, body.secret)
}

async function remove(shell: Shell, command: Command, id: string): Promise<void> {
  const { deleteWebhook } = await loadContract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  await call(service, deleteWebhook, { params: toWebhookParams(service, id) })
  note(shell, `Removed the webhook ${id}.`)
}

async function list(shell: Shell, command: Command): Promise<void> {
  const { listWebhooks } = await loadContract()
  const service = await openService(shell, command)
  const { items } = await collectPages<Webhook>(async (query) => {
    const { body } = await call(service, listWebhooks, { params: { org: service.org }, query })
    return { items: body.webhooks, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { webhooks: items, nextCursor: null })
  printTable(shell, items, [
    ['ID', ({ id }) => id],
    ['ADDRESS', ({ origin }) => `${origin}/…`],
    ['DESCRIPTION', ({ description }) => description],
    ['EVENTS', ({ events }) => events.join(' ')],
    ['STATE', formatState],
  ])
}

function formatState({ disabledReason, failingSince }: Webhook): string {
  if (disabledReason) return `disabled: ${disabledReason}`
  return failingSince ? `failing since ${formatTime(failingSince, '-')}` : 'enabled'
}

async function test(shell: Shell, command: Command, id: string): Promise<void> {
  const { testWebhook } = await loadContract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { body } = await call(service, testWebhook, { params: toWebhookParams(service, id) })
  if (service.json) return printJson(shell, body)
  note(shell, `Sent a test event. To see its delivery: assay webhooks deliveries ${id}. Its id:`)
  print(shell, body.id)
}

async function printDeliveries(shell: Shell, command: Command, id: string): Promise<void> {
  const { listDeliveries: endpoint } = await loadContract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { items } = await collectPages<Delivery>(async (query) => {
    const { body } = await call(service, endpoint, { params: toWebhookParams(service, id), query })
    return { items: body.deliveries, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { deliveries: items, nextCursor: null })
  printTable(shell, items, [
    ['ID', ({ id: own }) => own],
    ['EVENT', ({ event }) => event],
    ['STATE', ({ state }) => state],
    ['ATTEMPTS', ({ attempts }) => String(attempts)],
    ['LAST', ({ status, error }) => (status === null ? (error ?? '-') : String(status))],
    ['NEXT', ({ nextAt }) => formatTime(nextAt, '')],
  ])
}

async function redeliver(shell: Shell, command: Command, id: string, delivery: string): Promise<void> {
  const { redeliver: endpoint } = await loadContract()
  requireId(id, 'assay webhooks list')
  const deliveryId = requireId(delivery, 'assay webhooks deliveries')
  const service = await openService(shell, command)
  const { body } = await call(service, endpoint, { params: { ...toWebhookParams(service, id), deliveryId } })
  if (service.json) return printJson(shell, body)
  note(shell, `Sending ${body.id} again.`)
}
