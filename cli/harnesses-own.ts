import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import type { CustomHarness, NewHarness } from '../src/catalog/custom-harnesses/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { archiveOf } from './archive-of.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { listAll, openService, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printTable } from './table.ts'

type AddFlags = { bundle?: string }

/** The harnesses that a workspace has described, on its server. */
export function addOwnHarnessesCommands(harnesses: Command, shell: Shell): void {
  withExample(
    harnesses
      .command('add')
      .description('Describe a harness of your own to the server, or a new version of one')
      .argument('<description>', 'a JSON file; docs/harnesses.md says what is in it')
      .option('--bundle <source>', 'its program: a folder, or a .tar.gz of one')
      .action((file: string, flags: AddFlags, command: Command) => add(shell, command, flags, file)),
    'assay harnesses add house-agent.json --bundle ./dist',
  )
  withExample(
    harnesses
      .command('remove')
      .description('Remove one that no comparison works with, with all its versions')
      .argument('<id>', 'custom/ and its name')
      .action((id: string, _flags: object, command: Command) => remove(shell, command, id)),
    'assay harnesses remove custom/house-agent',
  )
}

export const isOwn = (id: string): boolean => id.startsWith('custom/')

const contract = () => import('../src/catalog/custom-harnesses/schema.ts')

async function listOwn(service: Service): Promise<CustomHarness[]> {
  const { listHarnesses } = await contract()
  const { items } = await listAll(async (query) => {
    const { body } = await call(service, listHarnesses, { params: { org: service.org }, query })
    return { items: body.harnesses, nextCursor: body.nextCursor }
  })
  return items
}

export async function printOwn(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const found = await listOwn(service)
  if (service.json) return printJson(shell, { harnesses: found })
  printTable<CustomHarness>(shell, found, [
    ['ID', ({ id }) => id],
    ['NAME', ({ name }) => name],
    ['VERSION', ({ version }) => version],
    ['BUNDLE', ({ bundle }) => bundle?.digest.slice(0, 'sha256:'.length + 12) ?? '-'],
    ['PROTOCOLS', ({ protocols }) => protocols.join(', ')],
    ['ADDED', ({ createdAt }) => moment(createdAt, '-')],
  ])
}

/** The newest version, as it was described. */
export async function showOwn(shell: Shell, command: Command, id: string): Promise<void> {
  const found = (await listOwn(await openService(shell, command))).find((harness) => harness.id === id)
  if (!found) throw new Error(`There is no harness ${id}. \`assay harnesses list --own\` shows them.`)
  printJson(shell, found)
}

async function add(shell: Shell, command: Command, { bundle }: AddFlags, file: string): Promise<void> {
  const written = await readDescription(file)
  const upload = bundle === undefined ? undefined : await archiveOf(bundle, { inside: true })
  const service = await openService(shell, command)
  const { addHarness, sendBundle } = await contract()
  const params = { org: service.org }
  const sent = upload && (await call(service, sendBundle, { params, upload })).body
  const description = sent
    ? { ...written, bundle: { ...Written.parse(written.bundle ?? {}), digest: sent.digest } }
    : written
  const { status, body } = await call(service, addHarness, { params, body: await checked(description) })
  if (service.json) return printJson(shell, body)
  note(shell, `${body.name} ${body.version} ${status === 201 ? 'is there.' : 'was there, just so.'}`)
  print(shell, body.id)
}

const Written = z.record(z.string(), z.unknown())

async function readDescription(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(resolve(file), 'utf8').catch(() => {
    throw new WrongUse(`There is no ${file}.`)
  })
  try {
    return Written.parse(JSON.parse(text))
  } catch {
    throw new WrongUse(`${file} is no JSON object.`)
  }
}

async function checked(description: object): Promise<NewHarness> {
  const { success, data, error } = (await contract()).NewHarness.safeParse(description)
  if (success) return data
  const [first] = error.issues
  throw new WrongUse(`The description does not fit. ${first?.path.join('.') || 'It'}: ${first?.message}.`)
}

async function remove(shell: Shell, command: Command, id: string): Promise<void> {
  const [, slug] = /^custom\/(.+)$/.exec(id) ?? []
  if (slug === undefined) throw new WrongUse('Only harnesses of your own can be removed: custom/<name>.')
  const service = await openService(shell, command)
  await call(service, (await contract()).removeHarness, { params: { org: service.org, slug } })
  if (!service.json) note(shell, `${id} is removed.`)
}
