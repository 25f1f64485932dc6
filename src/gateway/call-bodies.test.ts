import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { testDatabase } from '../../test/support/database.ts'
import {
  beginEvents,
  EVENTS,
  KEY,
  message,
  messagesRequest,
  openGatewayFixture,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import { openBlobs } from '../platform/blobs/blobs.ts'
import { newId } from '../platform/ids.ts'
import { sweepCallBodies } from './call-bodies.ts'
import { createStoredLedger } from './stored-ledger.ts'

test('hides the key where the provider quotes it', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'assay-record-'))
  const blobs = openBlobs(`file:${folder.path}`, join(folder.path, 'spool'))
  const packed = [KEY, encodeURIComponent(KEY), Buffer.from(KEY).toString('base64')]
  for (const [status, body] of [
    [401, { error: { message: `Incorrect API key provided: ${KEY}.` } }],
    [200, message({ content: packed })],
  ] as const) {
    await using fixture = await openGatewayFixture((response) => sendJson(response, body, status), { tools: { blobs } })
    const sandbox = await fixture.sandbox({ terms: { ...TERMS, recordBodies: true } })
    await (await sandbox.post('/v1/messages', messagesRequest())).text()
    const digest = (await fixture.ledger.read(sandbox.id))?.calls[0]?.bodies
    if (!isDigest(digest)) throw new Error('Nothing was kept.')
    const kept = await text(await blobs.get(digest))
    expect(kept).toContain('[key]')
    for (const form of packed) expect(kept).not.toContain(form)
  }
})

test('records the size of a response that is longer than what is stored of it', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'assay-record-'))
  const blobs = openBlobs(`file:${folder.path}`, join(folder.path, 'spool'))
  const body = message({ content: Array.from({ length: 300 }, () => 'x'.repeat(50_000)) })
  await using fixture = await openGatewayFixture((response) => sendJson(response, body), { tools: { blobs } })
  const sandbox = await fixture.sandbox({ terms: { ...TERMS, recordBodies: true } })
  const answer = await (await sandbox.post('/v1/messages', messagesRequest())).text()
  const digest = (await fixture.ledger.read(sandbox.id))?.calls[0]?.bodies
  if (!isDigest(digest)) throw new Error('Nothing was kept.')
  const [, response] = (await text(await blobs.get(digest))).trim().split('\n')
  const { bytes, body: stored } = JSON.parse(response ?? '')
  expect(bytes).toBe(Buffer.byteLength(answer))
  expect(stored).toHaveLength(8 * 1024 * 1024)
})

test('stores bodies if the grant records them, without keys, and deletes them in time', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'assay-record-'))
  const blobs = openBlobs(`file:${folder.path}`, join(folder.path, 'spool'))
  const workspaceId = newId()
  await using database = await testDatabase({ workspaceId })
  const ledger = createStoredLedger(database.db)
  await using fixture = await openGatewayFixture((response) => beginEvents(response).end(EVENTS.join('')), {
    ledger,
    tools: { blobs },
  })
  const sandbox = await fixture.sandbox({ workspaceId, terms: { ...TERMS, recordBodies: true } })
  const silent = await fixture.sandbox({ workspaceId })
  const request = messagesRequest({ stream: true })

  await (await sandbox.post('/v1/messages', request)).text()
  await (await silent.post('/v1/messages', request)).text()

  const [call] = (await ledger.read(sandbox.id))?.calls ?? []
  expect((await ledger.read(silent.id))?.calls).toMatchObject([{ bodies: null, outcome: 'succeeded' }])
  const digest = call?.bodies
  if (!isDigest(digest)) throw new Error('Nothing was kept.')
  const kept = await text(await blobs.get(digest))
  const [question, answer] = kept
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(question).toMatchObject({ call: call?.id, path: '/v1/messages', body: JSON.stringify(request) })
  expect(answer).toMatchObject({ status: 200, body: EVENTS.join('') })
  for (const secret of [KEY, sandbox.token]) expect(kept).not.toContain(secret)

  await sweepCallBodies({ db: database.db, blobs }, 1)
  expect(await blobs.find(digest)).toBeDefined()
  await sweepCallBodies({ db: database.db, blobs }, 0)
  expect(await blobs.find(digest)).toBeUndefined()
  expect((await ledger.read(sandbox.id))?.calls).toMatchObject([{ bodies: null }])
})
