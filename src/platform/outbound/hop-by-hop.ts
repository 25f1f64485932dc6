const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Lists the hop-by-hop headers and those that Connection names. Proxies must not forward them (RFC 9110, 7.6.1). */
export const listHopByHopHeaders = (connection: string): Set<string> =>
  new Set([...HOP_BY_HOP, ...connection.toLowerCase().split(/[\s,]+/)])
