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

/** Characters after which reading pauses until the user requests the rest. */
const FIRST_PART_LENGTH = 8 * 1024 * 1024
/** Browsers limit the height of an element; at 20 pixels per line it is reached soon after this many lines. */
const LINES_MAX = 1_500_000
/** Characters between two updates of the page. */
const UPDATE_LENGTH = 1024 * 1024

/**
 * Reads a text file as lines. Pauses after the first 8 MB of a large file, with the connection open, until the rest is
 * requested. A new `key` means another file.
 */
export function useTextFile(key: string, open: (signal: AbortSignal) => Promise<Response>) {
  const [file, setFile] = useState<TextFile>(EMPTY)
  const requestRest = useRef<() => void>(() => {})
  const latestOpen = useRef(open)
  latestOpen.current = open

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the file that is opened
  useEffect(() => {
    const abort = new AbortController()
    const restRequested = new Promise<void>((resolve) => {
      requestRest.current = resolve
    })
    setFile(EMPTY)
    const update = (next: TextFile) => {
      if (!abort.signal.aborted) setFile(next)
    }
    void readLines(() => latestOpen.current(abort.signal), restRequested, update)
    return () => abort.abort()
  }, [key])
  return { ...file, loadRest: () => requestRest.current() }
}

const EMPTY: TextFile = { lines: [], characters: 0, state: 'loading' }

/**
 * Reads a response as lines and emits them as they arrive. Emits a new array when reading pauses and at the end, so that
 * components recompute what they derive from the lines. Updates in between reuse the array, because copying is slow.
 */
export async function readLines(
  open: () => Promise<Response>,
  restRequested: Promise<void>,
  emit: (file: TextFile) => void,
): Promise<void> {
  const content = { lines: [] as string[], characters: 0 }
  try {
    const { body } = await open()
    const isComplete = await appendLines(content, body, async (state) => {
      emit({ ...content, lines: state === 'paused' ? [...content.lines] : content.lines, state })
      await (state === 'paused' ? restRequested : waitUntilIdle())
    })
    emit({ ...content, lines: [...content.lines], state: isComplete ? 'done' : 'full' })
  } catch (error) {
    emit({ ...content, state: 'failed', error })
  }
}

type OnProgress = (state: 'loading' | 'paused') => Promise<void>

/** Appends lines until the end or until there are too many. Returns true if the end was reached. */
async function appendLines(
  content: { lines: string[]; characters: number },
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  onProgress: OnProgress,
): Promise<boolean> {
  if (!body) return true
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  const reportProgress = createReporter(onProgress)
  let incompleteLine = ''
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    content.characters += chunk.value.length
    const lines = (incompleteLine + chunk.value).split('\n')
    incompleteLine = lines.pop() ?? ''
    for (const line of lines) content.lines.push(line)
    if (content.lines.length >= LINES_MAX) {
      await reader.cancel()
      return false
    }
    await reportProgress(content.characters)
  }
  if (incompleteLine !== '') content.lines.push(incompleteLine)
  return true
}

/** Returns a function that reports progress after every megabyte, and pauses once after the first part. */
function createReporter(onProgress: OnProgress): (characters: number) => Promise<void> {
  let reportedCharacters = 0
  let hasPaused = false
  return async (characters) => {
    if (!hasPaused && characters >= FIRST_PART_LENGTH) {
      hasPaused = true
      return onProgress('paused')
    }
    if (reportedCharacters > 0 && characters - reportedCharacters < UPDATE_LENGTH) return
    reportedCharacters = characters
    return onProgress('loading')
  }
}
