import { expect, test } from 'vitest'
import { readEvents } from './client.ts'
import type { ServerEvent } from './endpoint.ts'
import { createEventStream, streamProgressEvents } from './respond.ts'

const all = async (body: ReadableStream<Uint8Array<ArrayBuffer>>) => {
  const events = []
  for await (const event of readEvents(body)) events.push(event)
  return events
}

async function* listed(events: ServerEvent[]) {
  yield* events
}

test('events survive the round trip, line breaks and non-Latin text included', async () => {
  const events = [
    { event: 'status', data: { text: 'a\nb\r\n\n: c', word: 'é\u2028' }, id: '7' },
    { event: 'end', data: null },
  ]
  expect(await all(createEventStream(listed(events)))).toEqual([
    { event: 'status', data: JSON.stringify(events[0]?.data), id: '7' },
    { event: 'end', data: 'null', id: undefined },
  ])
})

test('a slow reader gets the newest progress and always the last event', async () => {
  const events = streamProgressEvents(async (tell) => {
    for (let done = 1; done <= 1000; done++) tell({ done })
    return { event: 'result', data: 'all' }
  })
  const got = await Array.fromAsync(events)
  expect(got.at(0)).toEqual({ event: 'progress', data: { done: 1000 } })
  expect(got.at(-1)).toEqual({ event: 'result', data: 'all' })
})

test('sends progress while the work is running', async () => {
  const gate = Promise.withResolvers<void>()
  const events = streamProgressEvents(async (tell) => {
    tell(1)
    await gate.promise
    return { event: 'result', data: 2 }
  })
  expect((await events.next()).value).toEqual({ event: 'progress', data: 1 })
  gate.resolve()
  expect((await events.next()).value).toEqual({ event: 'result', data: 2 })
})

test('sends heartbeats while the source is silent, and a reader can leave meanwhile', async () => {
  async function* silent(): AsyncGenerator<ServerEvent> {
    yield { event: 'first', data: 1 }
    await new Promise(() => {})
  }
  const reader = createEventStream(silent(), 5).getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('event: first')
  expect(new TextDecoder().decode((await reader.read()).value)).toBe(': still here\n\n')
  await reader.cancel()
  expect(await reader.read()).toEqual({ done: true, value: undefined })
})

test('a failing source ends the stream and its heartbeats', async () => {
  async function* broken(): AsyncGenerator<ServerEvent> {
    yield { event: 'first', data: 1 }
    throw new Error('The database is away.')
  }
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  await expect(all(createEventStream(broken()))).rejects.toThrow('The database is away.')
  expect(timers()).toBe(before)
})
