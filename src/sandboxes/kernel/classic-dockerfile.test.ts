import { expect, test } from 'vitest'
import { readDockerfile } from '../../harbor/dockerfile.ts'
import { toClassicDockerfile } from './dockerfile.ts'

const toClassic = (text: string) => toClassicDockerfile(text, readDockerfile(text), { keepCopies: false })

test('a Dockerfile without BuildKit syntax stays as it is', () => {
  const text =
    '# escape=`\nFROM a AS b\nRUN one && `\n  two\nCOPY --from=b --chown=1:1 x /y\nRUN ["a", "b"]\nRUN echo $((1 << 2))\n'
  expect(toClassic(text)).toEqual({ text, files: [], modes: [] })
})

test('commands use the shell of their stage or of its base', () => {
  const script = 'RUN <<E\nx\nE\n'
  const text = `FROM a AS One\n${script}SHELL ["/bin/bash", "-ec"]\n${script}FROM one\n${script}FROM a\n${script}`
  const runs = toClassic(text)
    .text.split('\n')
    .filter((line) => line.startsWith('RUN'))
  const [sh, bash] = ['RUN ["/bin/sh","-c","x\\n"]', 'RUN ["/bin/bash","-ec","x\\n"]']
  expect(runs).toEqual([sh, bash, bash, sh])
})

test('lines after a rewritten instruction keep their numbers', () => {
  expect(toClassic('FROM a\nRUN <<E\nx\nE\nRUN false').text.split('\n')[4]).toBe('RUN false')
})

test('each mode needs one copy of the context, and JSON form stays JSON form', () => {
  const { text, modes } = toClassic(
    'FROM a\nCOPY --chmod=755 a /b c/\nCOPY --chmod=0755 ["x y", "/z"]\nADD --chmod=640 q /\n',
  )
  expect(modes).toEqual([0o755, 0o640])
  expect(text.split('\n').slice(1, 4)).toEqual([
    'COPY .assay-build/mode-755/a .assay-build/mode-755/b c/',
    'COPY [".assay-build/mode-755/x y","/z"]',
    'ADD .assay-build/mode-640/q /',
  ])
})
