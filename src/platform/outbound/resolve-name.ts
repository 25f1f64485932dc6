import { lookup, Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { createConcurrencyLimit } from '../concurrency.ts'

export type Resolve = (host: string) => Promise<string[]>

type ResolveOptions = {
  /** DNS servers. Default: those of the system. */
  servers?: readonly string[]
  hostsFile?: string
  lookupInSystem?: Resolve
}

const TIMEOUT_MS = 3_000
const TRIES = 2

/**
 * Creates the lookup of host names, which untrusted parties choose. The system's own lookup takes one of few threads until
 * a DNS server answers, so a party whose server never answers would delay the lookups of all others. It is therefore only
 * used for names that DNS does not know, such as those of search domains, and only for one name at a time.
 */
export function createResolve(options: ResolveOptions = {}): Resolve {
  const { hostsFile = '/etc/hosts', lookupInSystem = lookupAll } = options
  const inTurn = createConcurrencyLimit(1)
  return async (host) => {
    const listed = findInHosts(await readFile(hostsFile, 'utf8').catch(() => ''), host)
    if (listed.length > 0) return listed
    return (await resolveInDns(host, options.servers)) ?? inTurn(() => lookupInSystem(host))
  }
}

/** Returns the addresses of a host in a file such as `/etc/hosts`. */
function findInHosts(file: string, host: string): string[] {
  const lines = file.split('\n').map((line) => line.replace(/#.*/, '').trim().split(/\s+/))
  return lines.flatMap(([address = '', ...names]) =>
    names.some((name) => name.toLowerCase() === host.toLowerCase()) ? [address] : [],
  )
}

/** Returns the addresses of a host, or undefined if DNS does not know it. Throws if no server answers. */
async function resolveInDns(host: string, servers: readonly string[] | undefined): Promise<string[] | undefined> {
  // A new resolver reads the settings of the system, which may have changed.
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES })
  if (servers) resolver.setServers(servers)
  const results = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const addresses = results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  if (addresses.length > 0) return addresses
  const failure = results.find((result) => result.status === 'rejected' && !isUnknown(result.reason))
  if (failure?.status === 'rejected') throw failure.reason
  return undefined
}

/** `ECONNREFUSED`: the system has no DNS server. */
const UNKNOWN_CODES = ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED']

const isUnknown = (error: { code?: string }): boolean => UNKNOWN_CODES.includes(error.code ?? '')

async function lookupAll(host: string): Promise<string[]> {
  const resolved = await lookup(host, { all: true })
  return resolved.map(({ address }) => address)
}
