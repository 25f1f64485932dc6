import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModelComparisonLab } from '../../test/support/model-comparing.ts'
import { newId } from '../platform/ids.ts'
import { createKey, listAudit } from '../workspaces/schema.ts'
import { sweepCallBodies } from './call-bodies.ts'
import { changeGatewaySettings, readCallBodies, readGatewaySettings } from './schema.ts'

const passed = { state: 'passed', class: 'verified', reward: 1, rewards: { reward: 1 } } as const
const script = { tasks: [{ match: 'Work', turns: [{ say: 'It is done.' }] }] }

let shop: Awaited<ReturnType<typeof openModelComparisonLab>>
beforeAll(async () => {
  shop = await openModelComparisonLab(async (ask) => {
    await ask()
    return passed
  }, script)
})
afterAll(() => shop[Symbol.asyncDispose]())

const change = (recordBodies: boolean, more: object = {}) =>
  shop.app.call(changeGatewaySettings, { body: { recordBodies }, ...more })
const bodiesOf = (callId: string, more: object = {}) => shop.app.call(readCallBodies, { params: { callId }, ...more })

/** The only call of a trial that is run now. */
async function newCall(): Promise<{ id: string; bodies: boolean }> {
  const { body } = await shop.create({ models: shop.models, skipCompleted: false })
  await shop.work()
  const [trial] = await shop.trials(body.id)
  const { body: listed } = await shop.app.call(shop.endpoints.calls, shop.at(body.id, { trialId: trial.id }))
  return listed.calls[0]
}

test('bodies are stored only if an admin has turned it on, and only admins can read them', async () => {
  expect((await shop.app.call(readGatewaySettings)).body).toEqual({ recordBodies: false })
  const silent = await newCall()
  expect(silent.bodies).toBe(false)
  expect(await bodiesOf(silent.id)).toMatchObject({ status: 404 })

  const { body: writer } = await shop.app.call(createKey, { body: { name: 'writer', permission: 'write' } })
  expect(await change(true, { key: writer.key })).toMatchObject({ status: 403 })
  expect(await change(true)).toMatchObject({ status: 200, body: { recordBodies: true } })
  const told = await newCall()
  expect(told.bodies).toBe(true)
  expect(await bodiesOf(told.id, { key: writer.key })).toMatchObject({ status: 403 })
  const { status, text, headers } = await bodiesOf(told.id)
  expect([status, headers.get('content-disposition')]).toEqual([200, expect.stringContaining('attachment')])
  const [asked, answered] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect([asked.call, asked.body, answered.body]).toEqual([
    told.id,
    expect.stringContaining('Work.'),
    expect.stringContaining('It is done.'),
  ])
  const { body: audit } = await shop.app.call(listAudit)
  expect(audit.events).toContainEqual(
    expect.objectContaining({ action: 'gateway.changed', detail: { recordBodies: 'true' } }),
  )

  const other = await shop.app.otherWorkspace('curious')
  expect(await bodiesOf(told.id, { params: { callId: told.id, org: other.login }, key: other.key })).toMatchObject({
    status: 404,
  })
  expect(await bodiesOf(newId())).toMatchObject({ status: 404 })
  await sweepCallBodies({ db: shop.app.database.db, blobs: shop.app.tools.blobs }, 0)
  expect(await bodiesOf(told.id)).toMatchObject({ status: 404 })
  expect(await change(false)).toMatchObject({ status: 200 })
  expect((await newCall()).bodies).toBe(false)
})
