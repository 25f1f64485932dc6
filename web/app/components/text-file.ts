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

const FIRST_PART_LENGTH = 8 * 1024 * 1024
/** Browsers cannot scroll much further at 20 pixels per line. */
const LINES_MAX = 1_500_000
const UPDATE_LENGTH = 1024 * 1024

/**
 * Reads a text as lines. Pauses after the first megabytes of a large file, with the connection open, until the rest is
 * requested.
 */
export function useTextFile(key: string, open: (signal: AbortSignal) => Promise<Response>) {
  const [file, setFile] = useState<TextFile>(EMPTY)
  const requestRest = useRef<() => void>(() => {})
  const opener = useRef(open)
  opener.current = open

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the file that is opened
  useEffect(() => {
    const abort = new AbortController()
    const restRequested = new Promise<void>((resolve) => {
      requestRest.current = resolve
    })
    setFile(EMPTY)
    void readLines(
      () => opener.current(abort.signal),
      restRequested,
      (next) => !abort.signal.aborted && setFile(next),
    )
    return () => abort.abort()
  }, [key])
  return { ...file, loadRest: () => requestRest.current() }
}

const EMPTY: TextFile = { lines: [], characters: 0, state: 'loading' }

async function readLines(
  open: () => Promise<Response>,
  restRequested: Promise<void>,
  emit: (file: TextFile) => void,
): Promise<void> {
  const content = { lines: [] as string[], characters: 0 }
  try {
    const isComplete = await appendLines(content, (await open()).body, async (state) => {
      emit({ ...content, lines: state === 'paused' ? [...content.lines] : content.lines, state })
      await (state === 'paused' ? restRequested : waitUntilIdle())
    })
    emit({ ...content, state: isComplete ? 'done' : 'full' })
  } catch (error) {
    emit({ ...content, state: 'failed', error })
  }
}

type OnProgress = (state: 'loading' | 'paused') => Promise<void>

/** Appends lines until the end or until there are too many. Returns whether the end was reached. */
async function appendLines(
  content: { lines: string[]; characters: number },
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  onProgress: OnProgress,
): Promise<boolean> {
  if (!body) return true
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  const reportProgress = createReporter(onProgress)
  let rest = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    content.characters += part.value.length
    const parts = (rest + part.value).split('\n')
    rest = parts.pop() ?? ''
    for (const each of parts) content.lines.push(each)
    if (content.lines.length >= LINES_MAX) {
      await reader.cancel()
      return false
    }
    await reportProgress(content.characters)
  }
  if (rest !== '') content.lines.push(rest)
  return true
}

/** Returns a function that reports every megabyte, and that pauses once after the first part. */
function createReporter(onProgress: OnProgress): (characters: number) => Promise<void> {
  let reported = 0
  let isFirstPart = true
  return async (characters) => {
    if (isFirstPart && characters >= FIRST_PART_LENGTH) {
      isFirstPart = false
      return onProgress('paused')
    }
    if (reported > 0 && characters - reported < UPDATE_LENGTH) return
    reported = characters
    return onProgress('loading')
  }
}
