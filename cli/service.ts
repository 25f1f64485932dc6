import type { Command } from 'commander'
import { type ClientOptions, call, ProblemReceived, ServiceUnreachable } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { startHeartbeat } from './heartbeat.ts'
import type { Shell } from './shell.ts'

/** Options of all commands that use the service. */
type Globals = { url?: string; org?: string; json?: boolean }

/** A client of the service, the workspace of its key, and whether to print JSON. */
export type Service = ClientOptions & { org: string; json: boolean }

export const DEFAULT_URL = 'http://127.0.0.1:4000'

export const readGlobals = (command: Command): Globals => command.optsWithGlobals<Globals>()

/** Opens the service with the key in ASSAY_KEY and finds the workspace of the key. */
export async function openService(shell: Shell, command: Command): Promise<Service> {
  const globals = readGlobals(command)
  const client = { url: readAddress(shell, globals), key: readKey(shell, 'ASSAY_KEY', KEY_HINT) }
  const heartbeat = startHeartbeat(shell, () => 'Waiting for the service.')
  const org = await fetchOrg(client).finally(heartbeat.stop)
  if (globals.org !== undefined && globals.org.toLowerCase() !== org.toLowerCase()) {
    throw new Error(`ASSAY_KEY belongs to the workspace ${org} and gives no access to ${globals.org}.`)
  }
  return { ...client, org, json: globals.json ?? false }
}

const KEY_HINT = 'The first start of the service printed one; `assay keys recover` makes another.'
const OPERATOR_HINT = 'It is the operator key that the service was started with.'

/** Opens the service with the operator key, for operations outside any workspace. */
export const openAsOperator = (shell: Shell, command: Command): ClientOptions => ({
  url: readAddress(shell, readGlobals(command)),
  key: readKey(shell, 'ASSAY_OPERATOR_KEY', OPERATOR_HINT),
})

/** Returns the address of the service. */
export function readAddress(shell: Shell, { url }: Globals): string {
  const address = url ?? (shell.env.ASSAY_URL || DEFAULT_URL)
  if (/^https?:/.test(address) && URL.canParse(address)) return address
  throw new WrongUse(`${url === undefined ? 'ASSAY_URL' : '--url'} must be an http or https URL.`)
}

/** Reads the key from the environment, never from a flag, because flags are visible in the process list. */
function readKey(shell: Shell, name: string, hint: string): string {
  const key = shell.env[name]
  if (!key) throw new WrongUse(`Set ${name}. ${hint}`)
  if (!/^[\x21-\x7e]+$/.test(key)) throw new WrongUse(`${name} contains invalid characters.`)
  return key
}

async function fetchOrg(client: ClientOptions): Promise<string> {
  const { readOwnKey } = await import('../src/workspaces/schema.ts')
  const { body } = await call(client, readOwnKey).catch((error: unknown) => {
    throw error instanceof ProblemReceived && error.problem.code === 'unauthenticated'
      ? toKeyRejected(client, error)
      : error
  })
  return body.org
}

const toKeyRejected = ({ url }: ClientOptions, { problem: { code, requestId } }: ProblemReceived): Error =>
  new Error(
    `${url} does not know the key in ASSAY_KEY, or it has expired or was revoked (${code}, request ${requestId}). \`assay keys recover\` makes another.`,
  )

const PAGE_SIZE = 200

type ListPage<Item> = { items: Item[]; nextCursor: string | null }
type PageQuery = { limit: number; cursor?: string }

/** Reads pages until there are `itemsMax` items or no more pages. */
export async function collectPages<Item>(
  readPage: (query: PageQuery) => Promise<ListPage<Item>>,
  itemsMax = Number.POSITIVE_INFINITY,
): Promise<ListPage<Item>> {
  const items: Item[] = []
  let cursor: string | null | undefined
  do {
    const limit = Math.min(PAGE_SIZE, itemsMax - items.length)
    const page = await readPage(cursor ? { limit, cursor } : { limit })
    items.push(...page.items)
    if (page.nextCursor && page.nextCursor === cursor) throw new ServiceUnreachable('The service repeats a page.')
    cursor = page.nextCursor
  } while (cursor && items.length < itemsMax)
  return { items, nextCursor: cursor }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns the id. Throws if it is no UUID, and names the command that lists ids. */
export function requireId(id: string, listCommand: string): string {
  if (UUID.test(id)) return id
  throw new WrongUse(`Not an id. List them with \`${listCommand}\`.`)
}
