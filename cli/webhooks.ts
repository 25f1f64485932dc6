import { Argument, type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { Delivery, Webhook, WebhookEvent } from '../src/webhooks/schema.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { listAll, openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printTable } from './table.ts'

const ID = '01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11'
const WEBHOOK = ['<webhook>', 'its id, as `assay webhooks list` shows it'] as const
const EVENT = ['--event <type...>', 'only these (default: all)'] as const

type Flags = { event?: WebhookEvent[]; description?: string }

export function addWebhooksCommands(assay: Command, shell: Shell): void {
  const webhooks = assay.command('webhooks').description('Be told of what happens').helpCommand(false)
  addChanging(webhooks, shell)
  addReading(webhooks, shell)
}

function addChanging(webhooks: Command, shell: Shell): void {
  withExample(
    webhooks
      .command('add')
      .description('Add an address; its signing secret is printed once')
      .argument('<url>', 'https, and a public host')
      .option(...EVENT)
      .option('--description <text>', 'how people call it')
      .action((url: string, flags: Flags, command: Command) => add(shell, command, { url, ...flags })),
    'assay webhooks add https://hooks.example.org/assay --event comparison.completed release.published',
  )
  withExample(
    webhooks
      .command('update')
      .description('Change what it hears of, enable or disable it, or give it a new secret')
      .argument(...WEBHOOK)
      .option(...EVENT)
      .option('--description <text>', 'how people call it')
      .addOption(new Option('--enable', 'send to it again').conflicts('disable'))
      .option('--disable', 'send nothing to it')
      .option('--new-secret', 'print a new secret; the old one signs along for a day')
      .action((id: string, flags: UpdateFlags, command: Command) => update(shell, command, id, flags)),
    `assay webhooks update ${ID} --enable`,
  )
  withExample(
    webhooks
      .command('remove')
      .description('Remove a webhook and what was sent to it')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => remove(shell, command, id)),
    `assay webhooks remove ${ID}`,
  )
}

function addReading(webhooks: Command, shell: Shell): void {
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
      .description('Send a message of the type webhook.test')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => test(shell, command, id)),
    `assay webhooks test ${ID}`,
  )
  withExample(
    webhooks
      .command('deliveries')
      .description('List what was sent to it, newest first')
      .argument(...WEBHOOK)
      .action((id: string, _flags: object, command: Command) => listDeliveries(shell, command, id)),
    `assay webhooks deliveries ${ID}`,
  )
  withExample(
    webhooks
      .command('redeliver')
      .description('Send it again, with the same id')
      .argument(...WEBHOOK)
      .addArgument(new Argument('<delivery>', 'its id, as `assay webhooks deliveries` shows it'))
      .action((id: string, delivery: string, _flags: object, command: Command) =>
        redeliver(shell, command, id, delivery),
      ),
    `assay webhooks redeliver ${ID} 01981b3e-7a10-7c33-9d0e-4b5a6c7d8e9f`,
  )
}

const contract = () => import('../src/webhooks/schema.ts')
const placeOf = ({ org }: Service, id: string) => ({ org, webhookId: requireId(id, 'assay webhooks list') })

async function requireEvents(events: readonly string[] | undefined): Promise<void> {
  const { EVENTS } = await contract()
  const unknown = events?.find((event) => !EVENTS.some((known) => known === event))
  if (unknown !== undefined) throw new WrongUse(`There is no event ${unknown}. There are: ${EVENTS.join(', ')}.`)
}

async function add(shell: Shell, command: Command, { url, event, description }: Flags & { url: string }) {
  const { createWebhook } = await contract()
  await requireEvents(event)
  const service = await openService(shell, command)
  const wish = { url, ...(event ? { events: event } : {}), ...(description === undefined ? {} : { description }) }
  const { body } = await call(service, createWebhook, { params: { org: service.org }, body: wish })
  if (service.json) return printJson(shell, body)
  note(shell, `The webhook ${body.id} is added. Messages are signed with this secret, which is shown once:`)
  print(shell, body.secret)
}

type UpdateFlags = Flags & { enable?: boolean; disable?: boolean; newSecret?: boolean }

async function update(shell: Shell, command: Command, id: string, flags: UpdateFlags): Promise<void> {
  const { updateWebhook } = await contract()
  await requireEvents(flags.event)
  const wish = {
    ...(flags.event ? { events: flags.event } : {}),
    ...(flags.description === undefined ? {} : { description: flags.description }),
    ...(flags.enable ? { enabled: true } : flags.disable ? { enabled: false } : {}),
    ...(flags.newSecret ? { newSecret: true as const } : {}),
  }
  if (Object.keys(wish).length === 0) throw new WrongUse('Say what is to change: see --help.')
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { body } = await call(service, updateWebhook, { params: placeOf(service, id), body: wish })
  if (service.json) return printJson(shell, body)
  note(shell, `The webhook ${body.id} is changed.`)
  if (body.secret !== undefined) print(shell, body.secret)
}

async function remove(shell: Shell, command: Command, id: string): Promise<void> {
  const { deleteWebhook } = await contract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  await call(service, deleteWebhook, { params: placeOf(service, id) })
  note(shell, `The webhook ${id} is removed.`)
}

async function list(shell: Shell, command: Command): Promise<void> {
  const { listWebhooks } = await contract()
  const service = await openService(shell, command)
  const { items } = await listAll<Webhook>(async (query) => {
    const { body } = await call(service, listWebhooks, { params: { org: service.org }, query })
    return { items: body.webhooks, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { webhooks: items, nextCursor: null })
  printTable(shell, items, [
    ['ID', ({ id }) => id],
    ['ADDRESS', ({ origin }) => `${origin}/…`],
    ['DESCRIPTION', ({ description }) => description],
    ['EVENTS', ({ events }) => events.join(' ')],
    ['STATE', stateOf],
  ])
}

const stateOf = ({ disabledReason, failingSince }: Webhook): string =>
  disabledReason
    ? `disabled: ${disabledReason}`
    : failingSince
      ? `failing since ${moment(failingSince, '-')}`
      : 'enabled'

async function test(shell: Shell, command: Command, id: string): Promise<void> {
  const { testWebhook } = await contract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { body } = await call(service, testWebhook, { params: placeOf(service, id) })
  if (service.json) return printJson(shell, body)
  note(shell, `A message is on its way. \`assay webhooks deliveries ${id}\` shows how it fares. Its id:`)
  print(shell, body.id)
}

async function listDeliveries(shell: Shell, command: Command, id: string): Promise<void> {
  const { listDeliveries: endpoint } = await contract()
  requireId(id, 'assay webhooks list')
  const service = await openService(shell, command)
  const { items } = await listAll<Delivery>(async (query) => {
    const { body } = await call(service, endpoint, { params: placeOf(service, id), query })
    return { items: body.deliveries, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { deliveries: items, nextCursor: null })
  printTable(shell, items, [
    ['ID', ({ id: own }) => own],
    ['EVENT', ({ event }) => event],
    ['STATE', ({ state }) => state],
    ['ATTEMPTS', ({ attempts }) => String(attempts)],
    ['LAST', ({ status, error }) => (status === null ? (error ?? '-') : String(status))],
    ['NEXT', ({ nextAt }) => moment(nextAt, '')],
  ])
}

async function redeliver(shell: Shell, command: Command, id: string, delivery: string): Promise<void> {
  const { redeliver: endpoint } = await contract()
  requireId(id, 'assay webhooks list')
  const deliveryId = requireId(delivery, 'assay webhooks deliveries')
  const service = await openService(shell, command)
  const { body } = await call(service, endpoint, { params: { ...placeOf(service, id), deliveryId } })
  if (service.json) return printJson(shell, body)
  note(shell, `${body.id} is on its way again.`)
}
