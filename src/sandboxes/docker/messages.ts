import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

type Message = { stream?: string; status?: string; error?: string }

const LAST_LINES = 30

/** What the engine says while it builds or pulls, each in a line of JSON. An error is only told in there. */
export async function readMessages(answer: Readable, onLog: (line: string) => void): Promise<void> {
  const last: string[] = []
  const note = (text: string): void => {
    for (const line of text.split('\n').filter((part) => part.trim() !== '')) {
      last.push(line)
      if (last.length > LAST_LINES) last.shift()
      onLog(line)
    }
  }
  for await (const line of createInterface({ input: answer })) {
    if (line === '') continue
    const { stream, status, error }: Message = JSON.parse(line)
    note(stream ?? status ?? '')
    if (error !== undefined) throw new Error([...last, error].join('\n'))
  }
}
