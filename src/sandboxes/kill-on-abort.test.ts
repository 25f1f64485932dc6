import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { type Exit, killOnAbort, SandboxUnavailable } from './sandbox.ts'

function sandbox() {
  const ended = Promise.withResolvers<Exit>()
  let kills = 0
  const kill = () => {
    kills += 1
    return Promise.reject(new SandboxUnavailable('The engine is out of reach.'))
  }
  return { kill, exited: ended.promise, break: ended.reject, kills: () => kills }
}

test('a failed kill rejects only the exit of the sandbox', async () => {
  const abort = new AbortController()
  const lost = sandbox()
  killOnAbort(lost, abort.signal)
  abort.abort()
  expect(lost.kills()).toBe(1)
  lost.break(new SandboxUnavailable('The engine lost it.'))
  await expect(lost.exited).rejects.toThrow(SandboxUnavailable)
})

test('kills a process that starts after the abort, and does not signal one that has ended', async () => {
  const late = sandbox()
  killOnAbort(late, AbortSignal.abort())
  expect(late.kills()).toBe(1)

  const abort = new AbortController()
  const over = sandbox()
  killOnAbort(over, abort.signal)
  over.break(new SandboxUnavailable('It is over.'))
  await expect(over.exited).rejects.toThrow(SandboxUnavailable)
  expect(getEventListeners(abort.signal, 'abort')).toEqual([])
})
