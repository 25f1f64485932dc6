import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { listen } from './listen.ts'

test('a request that arrives while the event loop is busy for long is answered', async () => {
  const server = await listen((_request, response) => response.end('answer'), '127.0.0.1', 0)
  await using _stop = { [Symbol.asyncDispose]: () => server.stop(0) }
  const client = connect(Number(new URL(server.url).port), '127.0.0.1')
  await once(client, 'connect')
  const send = () => client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  send()
  await once(client, 'data')

  send()
  const until = performance.now() + 6_500
  while (performance.now() < until) {}
  expect(String(await once(client, 'data'))).toContain('answer')
  client.destroy()
})
