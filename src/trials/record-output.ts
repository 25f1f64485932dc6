import { open, rm, stat, writeFile } from 'node:fs/promises'
import { StringDecoder } from 'node:string_decoder'

const POLL_MS = 100
/** Output beyond these limits is in the log, but not in the recording. */
const BYTES_MAX = 4 * 1024 * 1024
const EVENTS_MAX = 50_000
const TERMINAL = { width: 120, height: 36 }

/** Size of a file at a time since the start. */
type FileSize = { seconds: number; bytes: number }

/**
 * Runs a program whose output is written to a log, and records when it was written. The recording is an asciicast beside
 * the log. No result depends on it, so a failure only leaves out the file.
 */
export async function recordOutput<T>(log: string, run: () => Promise<T>): Promise<T> {
  const startedAt = Date.now()
  const startTime = performance.now()
  let sizes: FileSize[] = []
  const sample = async () => {
    const bytes = (await stat(log).catch(() => undefined))?.size ?? 0
    const last = sizes.at(-1)?.bytes ?? 0
    // A repeated start truncates the log.
    if (bytes < last) sizes = []
    if (bytes > 0 && bytes !== last && sizes.length < EVENTS_MAX)
      sizes.push({ seconds: Math.round(performance.now() - startTime) / 1000, bytes })
  }
  const timer = setInterval(() => void sample(), POLL_MS)
  try {
    return await run()
  } finally {
    clearInterval(timer)
    await sample()
    await writeCast(log, sizes, startedAt).catch(() => {})
  }
}

/** Writes the recording in version 2 of the format of asciinema. */
async function writeCast(log: string, sizes: readonly FileSize[], startedAt: number): Promise<void> {
  const file = log.replace(/(\.log)?$/, '.cast')
  await rm(file, { force: true })
  if (sizes.length === 0) return
  const header = { version: 2, ...TERMINAL, timestamp: Math.floor(startedAt / 1000) }
  const lines = [JSON.stringify(header)]
  await using source = await open(log)
  const decoder = new StringDecoder('utf8')
  let position = 0
  for (const { seconds, bytes } of sizes) {
    const end = Math.min(bytes, BYTES_MAX)
    const { buffer, bytesRead } = await source.read(Buffer.alloc(end - position), 0, end - position, position)
    position = end
    const text = decoder.write(buffer.subarray(0, bytesRead))
    // Programs write to a pipe, and a terminal would have added the carriage returns.
    if (text !== '') lines.push(JSON.stringify([seconds, 'o', text.replaceAll(/\r?\n/g, '\r\n')]))
  }
  await writeFile(file, `${lines.join('\n')}\n`)
}
