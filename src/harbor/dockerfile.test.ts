import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EXPANDED_LENGTH_MAX, measureExpansion, readDockerfile } from './dockerfile.ts'
import { TaskInvalid } from './task.ts'

const TEXT = String.raw`# syntax=docker/dockerfile:1
ARG BASE=debian:bookworm-slim
FROM --platform=linux/amd64 $BASE AS build
ENV A=1 B="two words" C=a\ b
env OLD style value
RUN apt-get update && \
    # not part of it

    apt-get install -y \
      gcc
RUN --mount=type=cache,target=/c ["echo", "hi \"x\""]
FROM debian:bookworm-slim
COPY --from=build --chown=1:1 a b /dst/
COPY ["a b", "/c"]
RUN [ -f /c ] && echo yes
RUN <<EOF
echo 1
EOF
RUN cat <<-"E1" > x <<E2
	one
	E1
two $A
E2
WORKDIR /app
HEALTHCHECK --interval=5s CMD true
`

test('parses lines, flags, text, exec form, pairs and here-documents of instructions', () => {
  const { globals, stages } = readDockerfile(TEXT)

  expect(globals).toMatchObject([{ keyword: 'ARG', line: 2, pairs: [{ name: 'BASE', value: 'debian:bookworm-slim' }] }])
  expect(stages.map(({ image, name, platform, line }) => ({ image, name, platform, line }))).toEqual([
    { image: '$BASE', name: 'build', platform: 'linux/amd64', line: 3 },
    { image: 'debian:bookworm-slim', name: null, platform: null, line: 12 },
  ])
  const pairs = { A: '1', B: 'two words', C: 'a b', OLD: 'style value' }
  const found = stages[0]?.instructions.flatMap((instruction) => instruction.pairs)
  expect(Object.fromEntries(found?.map(({ name, value }) => [name, value]) ?? [])).toEqual(pairs)
  expect(stages[0]?.instructions.slice(2)).toMatchObject([
    { keyword: 'RUN', line: 6, lastLine: 10, text: 'apt-get update &&     apt-get install -y       gcc', exec: null },
    { line: 11, exec: ['echo', 'hi "x"'], flags: [{ name: 'mount', value: 'type=cache,target=/c' }] },
  ])
  expect(stages[1]?.instructions).toMatchObject([
    {
      keyword: 'COPY',
      text: 'a b /dst/',
      flags: [
        { name: 'from', value: 'build' },
        { name: 'chown', value: '1:1' },
      ],
    },
    { keyword: 'COPY', exec: ['a b', '/c'] },
    { keyword: 'RUN', text: '[ -f /c ] && echo yes', exec: null },
    { text: '<<EOF', heredocs: [{ name: 'EOF', content: 'echo 1\n', isExpanded: true }] },
    {
      line: 19,
      lastLine: 23,
      text: 'cat <<-"E1" > x <<E2',
      heredocs: [
        { name: 'E1', content: 'one\n', isExpanded: false },
        { name: 'E2', content: 'two $A\n', isExpanded: true },
      ],
    },
    { keyword: 'WORKDIR', line: 24, text: '/app' },
    { keyword: 'HEALTHCHECK', flags: [{ name: 'interval', value: '5s' }], text: 'CMD true' },
  ])
})

test.each([
  ['', 'FROM is missing.'],
  ['RUN true\nFROM a', 'Line 1: RUN must not come before FROM.'],
  ['FROM', 'Line 1: FROM requires an image'],
  ['FROM a b', 'Line 1: FROM requires an image'],
  ['FROM a AS', 'Line 1: FROM requires an image'],
  ['FROM a\nFOO bar', 'Line 2: unknown instruction.'],
  ['FROM a\n'.repeat(3000), 'lines and'],
])('%j is refused', (text, message) => {
  expect(() => readDockerfile(text)).toThrow(TaskInvalid)
  expect(() => readDockerfile(text)).toThrow(message)
})

test('parses or refuses any text without other errors', () => {
  const pieces = [
    'FROM a',
    'RUN',
    '\n',
    '\\',
    '<<EOF',
    'EOF',
    '"',
    "'",
    '[',
    ']',
    '--x=',
    '#',
    '$',
    '{',
    '`',
    ' ',
    '\t',
  ]
  const texts = fc
    .array(fc.oneof(fc.constantFrom(...pieces), fc.string()), { maxLength: 40 })
    .map((all) => all.join(''))
  fc.assert(
    fc.property(texts, (text) => {
      try {
        readDockerfile(text)
      } catch (error) {
        expect(error).toBeInstanceOf(TaskInvalid)
      }
    }),
    { numRuns: 2000 },
  )
})

test('accepts spaces before a here-document delimiter and preserves its content', () => {
  const text = "FROM a\nRUN cat > /x << 'EOF'\nimport this\ncat << END\nEOF\nRUN echo $((1 << 2))\n"
  const instructions = readDockerfile(text).stages[0]?.instructions
  expect(instructions?.map(({ keyword, heredocs }) => [keyword, heredocs])).toEqual([
    ['RUN', [{ name: 'EOF', content: 'import this\ncat << END\n', isExpanded: false }]],
    ['RUN', []],
  ])
})

const grow = (keyword: string, steps: number): string =>
  Array.from({ length: steps }, (_, n) => `${keyword} A${n + 1}=${`$A${n}`.repeat(10)}\n`).join('')

test.each([
  ['variables', `FROM a\nENV A0=0123456789\n${grow('ENV', 6)}`],
  ['arguments', `ARG A0=0123456789\n${grow('ARG', 6)}FROM a:$A6\n`],
  ['labels', `FROM a\nENV A0=${'x'.repeat(5000)}\nLABEL a=${'$A0'.repeat(1000)}\n`],
  ['many variables', `FROM a\nENV A0=${'x'.repeat(5000)}\n${'ENV B=$A0\n'.repeat(1000)}`],
])('refuses %s that expand to megabytes', (_, text) => {
  expect(() => readDockerfile(text)).toThrow(TaskInvalid)
})

test('accepts variables that contain each other a few times', () => {
  const text = `FROM a\nENV A0=0123456789\n${grow('ENV', 3)}${'ENV PATH=/a:$PATH\n'.repeat(100)}RUN echo ${'$A3'.repeat(5000)}\n`
  expect(readDockerfile(text).stages).toHaveLength(1)
})

test('counts arguments of the build', () => {
  const dockerfile = readDockerfile(`ARG A0\n${grow('ARG', 4)}FROM a:$A4\n`)
  expect(measureExpansion(dockerfile)).toBeLessThan(EXPANDED_LENGTH_MAX)
  expect(measureExpansion(dockerfile, { A0: 'x'.repeat(1000) })).toBeGreaterThan(EXPANDED_LENGTH_MAX)
})
