import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import type { CustomHarness, NewHarness } from '../src/catalog/custom-harnesses/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { readArchive } from './archive.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'

type AddHarnessFlags = { bundle?: string }

/** Adds the commands for the custom harnesses of a workspace. */
export function addCustomHarnessesCommands(harnesses: Command, shell: Shell): void {
  withExample(
    harnesses
      .command('add')
      .description('Add a custom harness or a new version of one')
      .argument('<description>', 'JSON file; see docs/harnesses.md')
      .option('--bundle <source>', 'Program: a folder or a .tar.gz of one')
      .action((file: string, flags: AddHarnessFlags, command: Command) => add(shell, command, flags, file)),
    'assay harnesses add house-agent.json --bundle ./dist',
  )
  withExample(
    harnesses
      .command('remove')
      .description('Remove a custom harness that no running comparison uses, with all its versions')
      .argument('<id>', 'Id: custom/<name>')
      .action((id: string, _flags: object, command: Command) => remove(shell, command, id)),
    'assay harnesses remove custom/house-agent',
  )
}

export const isCustomHarness = (id: string): boolean => id.startsWith('custom/')

const loadContract = () => import('../src/catalog/custom-harnesses/schema.ts')

async function listCustomHarnesses(service: Service): Promise<CustomHarness[]> {
  const { listHarnesses } = await loadContract()
  const { items } = await collectPages(async (query) => {
    const { body } = await call(service, listHarnesses, { params: { org: service.org }, query })
    return { items: body.harnesses, nextCursor: body.nextCursor }
  })
  return items
}

export async function printCustomHarnesses(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const harnesses = await listCustomHarnesses(service)
  if (service.json) return printJson(shell, { harnesses })
  printTable<CustomHarness>(shell, harnesses, [
    ['ID', ({ id }) => id],
    ['NAME', ({ name }) => name],
    ['VERSION', ({ version }) => version],
    ['BUNDLE', ({ bundle }) => bundle?.digest.slice(0, 'sha256:'.length + 12) ?? '-'],
    ['PROTOCOLS', ({ protocols }) => protocols.join(', ')],
    ['ADDED', ({ createdAt }) => formatTime(createdAt, '-')],
  ])
}

/** Prints the description of the newest version. */
export async function showCustomHarness(shell: Shell, command: Command, id: string): Promise<void> {
  const harnesses = await listCustomHarnesses(await openService(shell, command))
  const harness = harnesses.find((each) => each.id === id)
  if (!harness) throw new Error(`Harness ${id} not found. List them with \`assay harnesses list --own\`.`)
  printJson(shell, harness)
}

async function add(shell: Shell, command: Command, { bundle }: AddHarnessFlags, file: string): Promise<void> {
  const fileDescription = await readDescription(file)
  const upload = bundle === undefined ? undefined : await readArchive(bundle, { omitsFolder: true })
  const service = await openService(shell, command)
  const { addHarness, sendBundle } = await loadContract()
  const params = { org: service.org }
  const uploaded = upload && (await call(service, sendBundle, { params, upload })).body
  const description = uploaded
    ? { ...fileDescription, bundle: { ...JsonRecord.parse(fileDescription.bundle ?? {}), digest: uploaded.digest } }
    : fileDescription
  const { status, body } = await call(service, addHarness, { params, body: await parseNewHarness(description) })
  if (service.json) return printJson(shell, body)
  note(shell, `${body.name} ${body.version} ${status === 201 ? 'added.' : 'already exists, unchanged.'}`)
  print(shell, body.id)
}

const JsonRecord = z.record(z.string(), z.unknown())

async function readDescription(file: string): Promise<Record<string, unknown>> {
  const text = await readFile(resolve(file), 'utf8').catch(() => {
    throw new WrongUse(`${file} does not exist.`)
  })
  try {
    return JsonRecord.parse(JSON.parse(text))
  } catch {
    throw new WrongUse(`${file} is not a JSON object.`)
  }
}

async function parseNewHarness(description: object): Promise<NewHarness> {
  const { success, data, error } = (await loadContract()).NewHarness.safeParse(description)
  if (success) return data
  const [first] = error.issues
  throw new WrongUse(`Invalid description. ${first?.path.join('.') || 'Root'}: ${first?.message}.`)
}

async function remove(shell: Shell, command: Command, id: string): Promise<void> {
  const [, slug] = /^custom\/(.+)$/.exec(id) ?? []
  if (slug === undefined) throw new WrongUse('Only custom harnesses can be removed: custom/<name>.')
  const service = await openService(shell, command)
  await call(service, (await loadContract()).removeHarness, { params: { org: service.org, slug } })
  if (!service.json) note(shell, `Removed ${id}.`)
}
