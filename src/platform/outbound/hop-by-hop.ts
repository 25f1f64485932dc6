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

/** Headers of one connection, and what it names as its own: nobody passes them on (RFC 9110, 7.6.1). */
export const hopByHop = (connection: string): Set<string> =>
  new Set([...HOP_BY_HOP, ...connection.toLowerCase().split(/[\s,]+/)])
