import { describe, expect, test } from 'vitest'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { readFindings, readSmallTask } from '../../test/support/harbor/small-task.ts'
import { COMPOSE_BYTES_MAX, DOCKERFILE_BYTES_MAX, INSTRUCTION_BYTES_MAX, TOML_BYTES_MAX } from './limits.ts'

// Adversarial texts of the maximum size. Each must be accepted or refused quickly.

const CPU_MS_MAX = 100

type Bomb = [what: string, text: (bytes: number) => string]

const repeated =
  (piece: string, before = '', after = '') =>
  (bytes: number) =>
    before + piece.repeat(Math.floor((bytes - before.length - after.length) / piece.length)) + after

const numbered =
  (piece: (number: number) => string, before = '') =>
  (bytes: number) => {
    const pieces: string[] = [before]
    for (let number = 0, length = before.length; length < bytes - 50; number++) {
      const next = piece(number)
      pieces.push(next)
      length += next.length
    }
    return pieces.join('')
  }

/** Maximum number that passes the complexity check. */
const counted =
  (count: number, piece: (number: number) => string, before = '', after = '') =>
  () =>
    before + Array.from({ length: count }, (_, number) => piece(number)).join('') + after

const TOML: Bomb[] = [
  ['just as many keys', counted(9990, (n) => `a${n}=1\n`)],
  ['just as many tables', counted(9990, (n) => `[a${n}]\n`)],
  ['just as many tables in a list', counted(6600, () => '[[a]]\n')],
  ['just as many tables in a line', counted(9990, () => '{a=1},', 'a=[', ']')],
  ['just as many dots', counted(49_990, () => 'a.', '[', 'a]')],
  ['just as many brackets', counted(19_990, () => '[', 'a=')],
  ['a number just as long', counted(4000, () => `${'1'.repeat(63)},`, 'a=[', ']')],
  ['keys', numbered((n) => `a${n}=1\n`)],
  ['tables', numbered((n) => `[a${n}]\n`)],
  ['tables in a list', repeated('[[steps]]\n')],
  ['a deep table', repeated('a.', '[', 'a]')],
  ['a deep key', repeated('a.', '', 'a=1')],
  ['many dotted keys', numbered((n) => `a.b.c.d.e.f.g${n}=1\n`)],
  ['open brackets', repeated('[', 'a=')],
  ['a deep list', () => `a=${'['.repeat(900)}${']'.repeat(900)}`],
  ['open braces', repeated('{a=', 'a=')],
  ['a list', repeated('1,', 'a=[', ']')],
  ['tables in a line', repeated('{a=1},', 'artifacts=[', ']')],
  ['artifacts', repeated('"/a",', 'artifacts=[', ']')],
  ['hosts', repeated('"a.b",', 'environment={network_mode="allowlist",allowed_hosts=[', ']}')],
  ['variables', numbered((n) => `V${n}="x"\n`, '[environment.env]\n')],
  ['an open text', repeated('"" ', 'a="""')],
  ['quotation marks', repeated('"', 'a=')],
  ['escapes', repeated('\\n', 'a="', '"')],
  ['spaces', repeated(' ', 'a=', '1')],
  ['line ends', repeated('\n')],
  ['comments', repeated('#\n')],
  ['digits', repeated('1', 'a=')],
  ['underscores', repeated('1_', 'a=', '1')],
  ['days', repeated('1979-05-27,', 'a=[', ']')],
  ['dots and a host', repeated('.', 'environment={network_mode="allowlist",allowed_hosts=["a', '"]}')],
  ['a package name', repeated('a.', 'task={name="', '/b"}')],
  ['a size', repeated('1', 'environment={memory="', 'G"}')],
  ['a number in a text', repeated('1', 'agent={timeout_sec="', '"}')],
  ['a header without an end', repeated('${A:-a', 'environment={mcp_servers=[{name="a",url="b",headers={A="', '"}}]}')],
  ['a header', repeated(': - ', `environment={mcp_servers=[{name="a",url="b",headers={Cookie="\${A}`, '"}}]}')],
]

const YAML: Bomb[] = [
  ['just as many keys', counted(1990, (n) => `a${n}: 1\n`)],
  ['just as many entries', counted(1990, () => '- a\n')],
  ['just as many commas', counted(3900, () => 'a,', '[', ']')],
  ['just as many closed brackets', counted(3990, () => ']')],
  ['just as many open brackets', counted(3990, () => '[')],
  ['just as many quotation marks', counted(3990, () => '"')],
  ['just as many stars', counted(3990, () => '*a ')],
  ['just as many anchors', counted(3990, () => '&a ')],
  ['just as many tags', counted(1990, () => '!!a ')],
  ['just as many bad escapes', counted(3990, () => '\\q', '"', '"')],
  ['just as many dashes', counted(3990, () => '- ')],
  ['just as many colons', counted(3990, () => ': ')],
  ['just as many questions', counted(3990, () => '? ')],
  ['just as many documents', counted(1990, () => '---\n')],
  ['just as deep', counted(350, (n) => `${' '.repeat(n % 350)}a:\n`)],
  ['a billion laughs', () => laughs(10, 9)],
  ['few laughs, often', () => laughs(4, 30)],
  ['a circle', () => 'a: &a [*a]'],
  ['aliases', numbered((n) => `a${n}: *x\n`, 'x: &x 1\n')],
  ['keys', numbered((n) => `a${n}: 1\n`)],
  ['services', numbered((n) => ` a${n}: {image: x}\n`, 'services:\n')],
  ['variables', numbered((n) => ` a${n}: 1\n`, 'services:\n main:\n  environment:\n')],
  ['open brackets', repeated('[')],
  ['open braces', repeated('{a: ')],
  ['dashes', repeated('- ')],
  ['colons', repeated(': ')],
  ['questions', repeated('? ')],
  ['quotation marks', repeated('"')],
  ['closed brackets', repeated(']')],
  ['commas', repeated(',', '[')],
  ['stars', repeated('*a ')],
  ['anchors', repeated('&a ')],
  ['tags', repeated('!!str ')],
  ['documents', repeated('--- a\n')],
  ['comments', repeated('# a\n')],
  ['line ends', repeated('\n')],
  ['bad escapes', repeated('\\q', '"', '"')],
  ['a long text', repeated('x', 'services: {main: {command: "', '"}}')],
  ['words', repeated('a ', 'services: {main: {command: "', '"}}')],
  ['dollars', repeated('$', 'services: {main: {command: ["', '"]}}')],
  ['variables in a text', repeated('$a', 'services: {main: {command: ["', '"]}}')],
]

const DOCKERFILE: Bomb[] = [
  ['just as many instructions', counted(2990, () => 'RUN a\n', 'FROM a\n')],
  ['just as many here-documents', counted(990, () => 'RUN <<E\na\nE\n', 'FROM a\n')],
  ['just as many copies', counted(990, () => 'COPY --from=a b c\n', 'FROM a\n')],
  ['just as many stages', counted(2990, () => 'FROM a\n')],
  ['instructions', repeated('RUN a\n', 'FROM a\n')],
  ['a continued line', repeated('a \\\n', 'FROM a\nRUN ')],
  ['a long line', repeated('a ', 'FROM a\nRUN ')],
  ['here-documents', repeated('RUN <<E\na\nE\n', 'FROM a\n')],
  ['here-documents in a line', repeated('<<E ', 'FROM a\nRUN ')],
  ['variables', repeated('$a ', 'FROM a\nRUN ')],
  ['stages', repeated('FROM a\n')],
  ['pairs', repeated('a=b ', 'FROM a\nENV ')],
  ['backslashes', repeated('\\', 'FROM a\nRUN ')],
  ['quotation marks', repeated('"', 'FROM a\nENV ')],
  ['JSON', repeated('"a",', 'FROM a\nCMD [', '"a"]')],
  ['brackets', repeated('[', 'FROM a\nCMD ')],
  ['comments', repeated('# a\n', 'FROM a\nRUN a \\\n')],
  ['directives', repeated('# escape=`\n')],
  ['flags', repeated('--a=b ', 'FROM a\nRUN ')],
  ['braces that do not end', repeated('${a:-1', 'ARG A=', '\nFROM a\n')],
  ['just as many braces', counted(990, () => '${a:-1', 'ARG A=', '\nFROM a\n')],
  ['arguments that contain each other', () => `${growing('ARG')}FROM a:$A12\n`],
  ['variables that contain each other', () => `FROM a\n${growing('ENV')}`],
]

const INSTRUCTION: Bomb[] = [
  ['a canary that does not end', repeated('canary', '<!--')],
  ['canaries', repeated('# canary\n')],
  ['line ends', repeated('\n')],
]

/** Each variable contains the previous one ten times. */
const growing = (keyword: string): string =>
  Array.from({ length: 12 }, (_, n) => `${keyword} A${n + 1}=${`$A${n}`.repeat(10)}\n`).join('')

/** Each anchor repeats the previous one ten times. */
function laughs(times: number, depth: number): string {
  const lines = Array.from(
    { length: depth },
    (_, n) => `a${n + 1}: &a${n + 1} [${Array(times).fill(`*a${n}`).join(',')}]`,
  )
  return ['a0: &a0 [x]', ...lines].join('\n')
}

describe.each([
  ['task.toml', TOML, TOML_BYTES_MAX],
  ['environment/docker-compose.yaml', YAML, COMPOSE_BYTES_MAX],
  ['environment/Dockerfile', DOCKERFILE, DOCKERFILE_BYTES_MAX],
  ['instruction.md', INSTRUCTION, INSTRUCTION_BYTES_MAX],
] as const)('%s', (path, bombs, bytesMax) => {
  test.each(bombs)('%s', async (_, text) => {
    const files = { [path]: text(bytesMax) }

    expect(await cpuMs(() => readFindings(readSmallTask(files)))).toBeLessThan(CPU_MS_MAX)
  })
})
