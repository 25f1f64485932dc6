import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../support/app.ts'
import { localServer } from '../support/assay-command.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'
import { CANARY, openModelComparisonLab } from '../support/model-comparing.ts'

type Attribute = { key: string; value: Record<string, unknown> }
type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: Attribute[]
  status: { code: number }
}

const received: { path: string | undefined; key: unknown; spans: Span[]; service: unknown }[] = []
let collector: Awaited<ReturnType<typeof localServer>>
let app: TestApp

beforeAll(async () => {
  collector = await localServer(async (request, response) => {
    const { resourceSpans } = JSON.parse(await text(request))
    const [{ resource, scopeSpans }] = resourceSpans
    received.push({
      path: request.url,
      key: request.headers['x-key'],
      spans: scopeSpans[0].spans,
      service: resource.attributes[0].value.stringValue,
    })
    response.end('{}')
  })
  app = await testApp({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20secret',
    OTEL_SERVICE_NAME: 'lab',
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await collector[Symbol.asyncDispose]()
})

test('a collector receives the requests and the phases of every trial', async () => {
  const lab = await openComparisonLab(
    app,
    createScriptedEngine(() => ({ timings: { prepare: 1, agent: 2, verify: 0.5, total: 3.5 } })),
  )
  const { body } = await lab.create()
  await lab.work()
  const [trial] = await lab.trials(body.id)
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  await app.fetch('/api/key', { headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` } })
  await app.tools.tracer.stop()

  expect(new Set(received.map(({ path, key, service }) => `${path} ${key} ${service}`))).toEqual(
    new Set(['/v1/traces a secret lab']),
  )
  const spans = received.flatMap((each) => each.spans)
  expect(spans.find((span) => span.traceId === traceId)).toMatchObject({ kind: 2, parentSpanId: 'b7ad6b7169203331' })
  const own = spans.filter((span) => span.traceId === trial.id.replaceAll('-', ''))
  const [attempt, ...phases] = own
  expect(attempt).toMatchObject({ name: 'trial attempt', status: { code: 0 } })
  expect(attempt?.attributes).toContainEqual({ key: 'assay.state', value: { stringValue: 'passed' } })
  expect(phases.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual(
    ['prepare', 'agent', 'verify'].map((name) => [name, attempt?.spanId]),
  )
  const seconds = phases.map((span) => Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e9)
  expect(seconds).toEqual([1, 2, 0.5])
  expect(spans.filter(({ name }) => name === 'trial attempt')).toHaveLength(10)
})

test('a collector receives the model calls of a trial', async () => {
  await using lab = await openModelComparisonLab(
    async (ask) => {
      await ask()
      await ask()
      return {}
    },
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
  )
  const { body } = await lab.create({ models: lab.models })
  await lab.work()
  const [trial] = await lab.trials(body.id)
  await lab.app.tools.tracer.stop()

  const spans = received.flatMap((each) => each.spans).filter(({ traceId }) => traceId === trial.id.replaceAll('-', ''))
  const attempt = spans.find(({ name }) => name === 'trial attempt')
  const calls = spans.filter(({ name }) => name === 'chat')
  expect(calls).toHaveLength(2)
  for (const call of calls) {
    expect(call).toMatchObject({ kind: 3, parentSpanId: attempt?.spanId, status: { code: 0 } })
    expect(call.attributes.map(({ key }) => key)).toEqual(
      expect.arrayContaining(['gen_ai.response.model', 'gen_ai.usage.output_tokens', 'assay.cost_usd']),
    )
  }
  expect(JSON.stringify(spans)).not.toContain(CANARY)
})
