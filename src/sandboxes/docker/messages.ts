import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

type EngineMessage = { stream?: string; status?: string; error?: string }

const LAST_LINES = 30

/** Reads the progress of a build or pull, one line of JSON each. Errors are reported only there. */
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
    const { stream, status, error }: EngineMessage = JSON.parse(line)
    note(stream ?? status ?? '')
    if (error !== undefined) throw new Error([...last, error].join('\n'))
  }
}
