import type { LookupFunction } from 'node:net'
import { isIP } from 'node:net'
import { Agent, type Dispatcher } from 'undici'

export type AgentFor = (addresses: readonly string[]) => Dispatcher

const AGENTS_MAX = 64

/**
 * Caches one agent per set of addresses, so that connections are reused, but only to addresses that the current request
 * has just checked. Evicted agents need no closing: their idle sockets end by themselves in seconds.
 */
export function pinnedAgents(): AgentFor {
  const agents = new Map<string, Agent>()
  return (addresses) => {
    const key = addresses.toSorted().join(' ')
    const agent = agents.get(key) ?? pinnedAgent(addresses)
    agents.delete(key)
    agents.set(key, agent)
    const [oldest] = agents.keys()
    if (agents.size > AGENTS_MAX && oldest !== undefined) agents.delete(oldest)
    return agent
  }
}

/** Creates an agent that connects to these addresses for every name. TLS and the Host header still use the name. */
export function pinnedAgent(addresses: readonly string[]): Agent {
  return new Agent({
    allowH2: false,
    connect: { lookup: createFixedLookup(addresses) },
    // The deadline of the request covers both.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}

export function createFixedLookup(addresses: readonly string[]): LookupFunction {
  const known = addresses.map((address) => ({ address, family: isIP(address) }))
  return (hostname, options, callback) => {
    const [first] = known
    if (!first) return callback(new Error(`No address for ${hostname}.`), '')
    return options.all ? callback(null, known) : callback(null, first.address, first.family)
  }
}
