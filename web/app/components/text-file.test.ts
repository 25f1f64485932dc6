import { expect, test } from 'vitest'
import { readLines, type TextFile } from './text-file.ts'

const read = async (chunks: readonly string[]): Promise<TextFile[]> => {
  const emitted: TextFile[] = []
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk))
      controller.close()
    },
  })
  await readLines(
    () => Promise.resolve(new Response(body)),
    Promise.resolve(),
    (file) => emitted.push(file),
  )
  return emitted
}

test('joins a line that arrives in two parts', async () => {
  const emitted = await read(['one\ntw', 'o\nthree'])
  expect(emitted.at(-1)).toMatchObject({ lines: ['one', 'two', 'three'], characters: 13, state: 'done' })
})

test('emits a new array at the end, so that components recompute what they derive from the lines', async () => {
  const emitted = await read(['one\n', 'two\n'])
  expect(emitted.map(({ state }) => state)).toEqual(['loading', 'done'])
  expect(emitted[1]?.lines).not.toBe(emitted[0]?.lines)
})
