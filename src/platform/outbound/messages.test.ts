import { expect, test } from 'vitest'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { createOutbound, OutboundFailed } from './outbound.ts'

test('reports a refused connection', async () => {
  const server = await startServer((_, response) => response.end())
  await server[Symbol.asyncDispose]()

  const error = await createOutbound()
    .fetch(`http://127.0.0.1:${server.port}/hook/s3cret?token=s3cret`, {
      trust: 'operator',
      headers: { authorization: 's3cret' },
    })
    .catch((reason: unknown) => reason)

  expect(error).toBeInstanceOf(OutboundFailed)
  expect(error).toMatchObject({ reason: 'unreachable', message: expect.stringContaining('ECONNREFUSED') })
  expect(JSON.stringify([String(error), error])).not.toContain('s3cret')
})

test.each([
  ['a refused URL', 'https://s3cret:s3cret@example.com/s3cret?s3cret', {}, 'credentials_in_url'],
  ['another scheme', 'data:s3cret', {}, 'scheme_not_allowed'],
  ['not a URL', 'https://s3cret s3cret', {}, 'invalid_url'],
  ['a header that is not valid', 'https://example.com', { 'x-api-key': 's3cret\ns3cret' }, 'header_not_valid'],
])('%s', async (_, url, headers, reason) => {
  const error = await createOutbound()
    .fetch(url, { trust: 'client', headers })
    .catch((problem: unknown) => problem)

  expect(error).toMatchObject({ reason })
  expect(String(error)).not.toContain('s3cret')
})

const notFound = () => Promise.reject(Object.assign(new Error('s3cret'), { code: 'ENOTFOUND' }))
const fetchWith = (resolve: () => Promise<string[]>, trust: 'client' | 'operator') =>
  createOutbound({ resolve })
    .fetch('https://api.example.com/s3cret', { trust })
    .catch((problem: unknown) => problem)

test('tells the operator that a name does not resolve', async () => {
  expect(await fetchWith(notFound, 'operator')).toMatchObject({
    reason: 'name_not_found',
    message: 'Request to https://api.example.com failed: the host name could not be resolved (ENOTFOUND).',
  })
})

test('does not tell a client whether an internal name exists', async () => {
  const unknown = await fetchWith(notFound, 'client')
  expect(unknown).toMatchObject({
    reason: 'address_not_public',
    message: 'Request to https://api.example.com failed: the host does not resolve to public addresses only.',
  })
  for (const resolve of [async () => ['10.0.0.7'], async () => []]) {
    const known = await fetchWith(resolve, 'client')
    expect(known).toEqual(unknown)
    expect(known?.constructor).toBe(unknown?.constructor)
  }
})
