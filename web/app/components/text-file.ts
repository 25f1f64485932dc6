import { useEffect, useRef, useState } from 'react'
import { waitUntilIdle } from './idle.ts'

export type TextFile = {
  lines: readonly string[]
  /** Characters that were read so far. */
  characters: number
  /** `paused`: more is available after `loadRest`. `full`: more lines than can be shown. */
  state: 'loading' | 'paused' | 'full' | 'done' | 'failed'
  error?: unknown
}

const FIRST_LENGTH = 8 * 1024 * 1024
/** Browsers cannot scroll much further at 20 pixels per line. */
const LINES_MAX = 1_500_000
const UPDATE_LENGTH = 1024 * 1024

/**
 * Reads a text as lines. Stops after the first megabytes of a large file, with the connection waiting, until the rest is
 * asked for.
 */
export function useTextFile(key: string, open: (signal: AbortSignal) => Promise<Response>) {
  const [file, setFile] = useState<TextFile>(EMPTY)
  const goOn = useRef<() => void>(() => {})
  const opener = useRef(open)
  opener.current = open

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the file that is opened
  useEffect(() => {
    const abort = new AbortController()
    const restAsked = new Promise<void>((resolve) => {
      goOn.current = resolve
    })
    setFile(EMPTY)
    void readLines(
      () => opener.current(abort.signal),
      restAsked,
      (next) => !abort.signal.aborted && setFile(next),
    )
    return () => abort.abort()
  }, [key])
  return { ...file, loadRest: () => goOn.current() }
}

const EMPTY: TextFile = { lines: [], characters: 0, state: 'loading' }

async function readLines(
  open: () => Promise<Response>,
  restAsked: Promise<void>,
  emit: (file: TextFile) => void,
): Promise<void> {
  const read = { lines: [] as string[], characters: 0 }
  try {
    const isWhole = await readInto(read, (await open()).body, async (state) => {
      emit({ ...read, lines: state === 'paused' ? [...read.lines] : read.lines, state })
      await (state === 'paused' ? restAsked : waitUntilIdle())
    })
    emit({ ...read, state: isWhole ? 'done' : 'full' })
  } catch (error) {
    emit({ ...read, state: 'failed', error })
  }
}

type OnProgress = (state: 'loading' | 'paused') => Promise<void>

/** Appends lines until the end or until there are too many. Returns whether the end was reached. */
async function readInto(
  read: { lines: string[]; characters: number },
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  onProgress: OnProgress,
): Promise<boolean> {
  if (!body) return true
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  const reportAt = createReporter(onProgress)
  let rest = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    read.characters += part.value.length
    const parts = (rest + part.value).split('\n')
    rest = parts.pop() ?? ''
    for (const each of parts) read.lines.push(each)
    if (read.lines.length >= LINES_MAX) {
      await reader.cancel()
      return false
    }
    await reportAt(read.characters)
  }
  if (rest !== '') read.lines.push(rest)
  return true
}

/** Reports from time to time, and once when the first megabytes are there. */
function createReporter(onProgress: OnProgress): (characters: number) => Promise<void> {
  let reported = 0
  let isLimited = true
  return async (characters) => {
    if (isLimited && characters >= FIRST_LENGTH) {
      isLimited = false
      return onProgress('paused')
    }
    if (reported > 0 && characters - reported < UPDATE_LENGTH) return
    reported = characters
    return onProgress('loading')
  }
}
