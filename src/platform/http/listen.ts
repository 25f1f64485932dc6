import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Http } from './server.ts'

export type Listening = { url: string; stop(graceMs: number): Promise<void> }

/** Starts to accept requests. `stop` answers what is under way, for as long as the grace lasts. */
export async function listen(http: Http, host: string, port: number): Promise<Listening> {
  const route = getRequestListener(http.fetch)
  const server = createServer({ headersTimeout: 20_000 }, (incoming, outgoing) => {
    if (!http.answerAtOnce(incoming, outgoing)) void route(incoming, outgoing)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(explain(error, host, port)))
    server.listen(port, host, resolve)
  })
  const { port: actual, address, family } = boundTo(server)
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${actual}`,
    stop: (graceMs) => stop(server, graceMs),
  }
}

function boundTo(server: Server): AddressInfo {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server listens on no address.')
  return address
}

function explain(error: NodeJS.ErrnoException, host: string, port: number): Error {
  if (error.code === 'EADDRINUSE')
    return new Error(`Port ${port} on ${host} is taken. Choose another with --port or ASSAY_PORT.`)
  if (error.code === 'EADDRNOTAVAIL') return new Error(`This machine has no address ${host}. Set --host or ASSAY_HOST.`)
  if (error.code === 'EACCES')
    return new Error(`Port ${port} needs more rights. Choose one above 1023 with ASSAY_PORT.`)
  return error
}

function stop(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cutOff = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(cutOff)
      resolve()
    })
    server.closeIdleConnections()
  })
}
