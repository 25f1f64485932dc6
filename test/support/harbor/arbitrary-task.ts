import fc from 'fast-check'
import { stringify } from 'smol-toml'
import type { FileContents } from './folders.ts'
import { SMALL_TASK } from './small-task.ts'

/** Generates a table in which every key is optional. */
const some = (keys: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(keys, { requiredKeys: [] })

const text = fc.string({ unit: 'grapheme', maxLength: 12 }).map((value) => value.replaceAll('\0', ''))
const word = fc.stringMatching(/^[a-z][a-z0-9]{0,7}$/)
const seconds = fc.oneof(fc.integer({ min: 1, max: 100_000 }), fc.double({ min: 0.001, max: 1e6, noNaN: true }))
const user = fc.oneof(fc.constantFrom('root', 'nobody'), fc.nat(65_535))
const variable = (inside: string): string => `\${${inside}}`
const envValue = fc.oneof(text, fc.constantFrom('A', 'A:-b', 'A:-', '').map(variable), fc.constant(`x${variable('A')}`))
const env = fc.dictionary(fc.stringMatching(/^[A-Z_][A-Z0-9_.-]{0,6}$/), envValue, { maxKeys: 4 })
const host = fc.constantFrom('example.com', '*.example.com', '10.0.0.0/8', '::1', '1.2.3.4')

/** Generates a network with hosts only in mode allowlist. */
const network = fc.oneof(
  fc.constant({}),
  fc.constantFrom({ network_mode: 'public' }, { network_mode: 'no-network' }),
  fc.array(host, { maxLength: 3 }).map((allowed_hosts) => ({ network_mode: 'allowlist', allowed_hosts })),
)

const withNetwork = (table: fc.Arbitrary<Record<string, unknown>>): fc.Arbitrary<Record<string, unknown>> =>
  fc.tuple(table, network).map(([own, policy]) => ({ ...own, ...policy }))

const healthcheck = fc
  .tuple(text, some({ interval_sec: seconds, timeout_sec: seconds, start_period_sec: seconds, retries: fc.nat(9) }))
  .map(([command, rest]) => ({ command, ...rest }))

const mcpServer = fc.oneof(
  fc.record({ name: word, transport: fc.constant('stdio'), command: text, args: fc.array(text, { maxLength: 2 }) }),
  fc.record({
    name: word,
    transport: fc.constantFrom('sse', 'http', 'streamable-http'),
    url: text,
    headers: fc.constantFrom(
      {},
      { Authorization: `Bearer ${variable('TOKEN')}` },
      { Accept: `text ${variable('X:-y')}` },
    ),
  }),
)

const environment = withNetwork(
  some({
    os: fc.constantFrom('linux', 'Linux'),
    docker_image: fc.constantFrom('debian:12', 'a.example/b@sha256:00'),
    build_timeout_sec: seconds,
    cpus: fc.constantFrom(1, 2, 0.5),
    memory: fc.constantFrom('2G', '512M'),
    storage_mb: fc.integer({ min: 1, max: 99_999 }),
    gpus: fc.nat(4),
    gpu_types: fc.array(word, { maxLength: 2 }),
    tpu: fc.constant({ type: 'v6e', topology: '2x4' }),
    env,
    skills_dir: text,
    healthcheck,
    workdir: text,
    mcp_servers: fc.array(mcpServer, { maxLength: 2 }),
  }),
)

const agent = withNetwork(some({ timeout_sec: seconds, user }))

const verifier = withNetwork(
  some({
    timeout_sec: seconds,
    user,
    env,
    environment_mode: fc.constantFrom('separate', 'shared'),
    environment,
    collect: fc.array(fc.record({ command: text, timeout_sec: seconds }), { maxLength: 2 }),
  }),
).map(({ environment: own, ...rest }) =>
  own && rest.environment_mode !== 'shared' ? { ...rest, environment: own } : rest,
)

const artifacts = fc.array(
  fc.oneof(
    fc.constantFrom('/logs/a', 'out'),
    fc.record({ source: fc.constant('/x'), destination: word, exclude: fc.array(text, { maxLength: 2 }) }),
  ),
  { maxLength: 3 },
)

const step = fc
  .tuple(
    word,
    some({
      agent,
      verifier,
      artifacts,
      healthcheck,
      min_reward: fc.oneof(fc.double({ noNaN: true, min: -5, max: 5 }), fc.dictionary(word, fc.nat(3), { maxKeys: 3 })),
    }),
  )
  .map(([name, rest]) => ({ name, ...rest }))

const metadata = fc.dictionary(
  fc.oneof(word, fc.constantFrom('__proto__', 'constructor', 'a b')),
  fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('null')),
  { maxKeys: 4 },
)

const table = fc.tuple(
  some({
    schema_version: fc.constantFrom('1.0', '1.1', '1.2', '1.3', '1.4'),
    source: text,
    multi_step_reward_strategy: fc.constantFrom('mean', 'final'),
    task: fc.record({
      name: word.map((name) => `acme/${name}`),
      description: text,
      keywords: fc.array(text, { maxLength: 2 }),
    }),
    environment,
    agent,
    verifier,
    artifacts,
    metadata,
    solution: fc.record({ env }),
  }),
  fc.uniqueArray(step, { selector: ({ name }) => name, maxLength: 3 }),
)

const extras = fc.subarray([
  'tests/Dockerfile',
  'solution/solve.sh',
  'environment/data',
  'trajectory.json',
  'README.md',
])

/** Generates the files of a valid task. */
export const arbitraryTask: fc.Arbitrary<FileContents> = fc
  .tuple(table, extras, fc.boolean())
  .map(([[toml, steps], more, isRun]) => ({
    ...SMALL_TASK,
    ...Object.fromEntries(more.map((path) => [path, 'FROM scratch\n'])),
    ...Object.fromEntries(steps.flatMap(({ name }) => filesOf(name, isRun))),
    'tests/test.sh': { content: 'true\n', executable: isRun },
    'task.toml': stringify({ ...toml, ...(steps.length > 0 ? { steps } : {}) }),
  }))

const filesOf = (step: string, hasTests: boolean): [string, string][] => {
  const instruction: [string, string] = [`steps/${step}/instruction.md`, `Do ${step}.\n`]
  return hasTests ? [instruction, [`steps/${step}/tests/test.sh`, 'true\n']] : [instruction]
}
