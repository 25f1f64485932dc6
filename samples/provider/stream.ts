import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { CallFault } from './script.ts'

type StreamResult = { isWhole: boolean; sent: string[] }

/** Sends a stream with its fault. `isWhole` is true if all events were sent. */
export async function stream(response: ServerResponse, events: string[], fault: CallFault): Promise<StreamResult> {
  const { frames, end } = spoiled(events, fault)
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  response.flushHeaders()
  const sent: string[] = []
  for (const frame of frames) {
    if (response.destroyed) return { isWhole: false, sent }
    response.write(frame)
    sent.push(frame)
    if (fault.pauseMs !== undefined) await pause(fault.pauseMs)
  }
  if (end === 'hang') return { isWhole: false, sent }
  if (end === 'cut') {
    // Flushes written events before the connection closes.
    await new Promise((resolve) => response.write('', resolve))
    response.destroy()
    return { isWhole: frames.length === events.length, sent }
  }
  response.end()
  return { isWhole: !response.destroyed, sent }
}

const NOISE = 'data: {"type": "message_\n\n: a remark\n\ndata\n\nid:\n\n'

function spoiled(events: string[], fault: CallFault): { frames: string[]; end: 'whole' | 'cut' | 'hang' } {
  if (fault.cutAfter !== undefined) return { frames: events.slice(0, fault.cutAfter), end: 'cut' }
  if (fault.hangAfter !== undefined) return { frames: events.slice(0, fault.hangAfter), end: 'hang' }
  if (fault.hang === 'within') return { frames: events.slice(0, 2), end: 'hang' }
  if (fault.malformed === 'within') return { frames: events.flatMap((event) => [event, NOISE]), end: 'whole' }
  if (fault.malformed === 'after') return { frames: [...events.slice(0, 1), 'data: }{\n\n'], end: 'whole' }
  return { frames: events, end: 'whole' }
}
