import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createCommandHarness, nop, oracle } from '../../../src/harnesses/reference.ts'
import { SandboxUnsupported } from '../../../src/sandboxes/sandbox.ts'
import { testRegistry } from '../sandboxes/kubernetes-subject.ts'
import type { SandboxSuite } from './in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from './trial-runner.ts'

const CASE_MS = 120_000

/** Answers each connection with a line: its environment, its files and a count of connections. */
const SERVER = `use IO::Socket::INET;
open my $f, '<', '/srv/data/word' or die; my $word = <$f>; chomp $word;
my $s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5, ReuseAddr => 1) or die;
open my $r, '>', '/srv/shared/ready'; close $r;
my $n = 0;
while (my $c = $s->accept) { $n++; print $c "$ENV{GREETING} $word $n\\n"; close $c; open my $o, '>', '/srv/count'; print $o "$n\\n"; close $o }
`

const COMPOSE = `services:
  main:
    depends_on:
      server: { condition: service_healthy }
      first: { condition: service_completed_successfully }
    volumes: ["shared:/srv/shared"]
  server:
    image: ${IMAGE}
    entrypoint: ["perl"]
    command: ["/srv/code/server.pl"]
    depends_on: [first]
    environment: { GREETING: "\${GREETING:-hello}" }
    container_name: the-server
    shm_size: 8m
    working_dir: /srv
    volumes: ["./code:/srv/code:ro", "./data:/srv/data", "shared:/srv/shared"]
    tmpfs: /run
    healthcheck: { test: "test -e /srv/shared/ready", interval: 0.2s, retries: 50 }
  first:
    image: ${IMAGE}
    entrypoint: ["sh", "-c"]
    command: ["echo one > /srv/shared/first"]
    volumes: ["shared:/srv/shared"]
volumes:
  shared:
`

const ASK = `exec 3<> /dev/tcp/server/7000; read -r line <&3`
const FILES = {
  'environment/docker-compose.yaml': COMPOSE,
  'environment/code/server.pl': SERVER,
  'environment/data/word': 'world\n',
  'solution/solve.sh': `#!/bin/bash\n${ASK}; echo "$line" > /app/answer\n`,
  // The count continues, so it is the same server; the volume is the same too.
  'tests/test.sh': `#!/bin/bash\n${ASK}
[ "$(cat /app/answer)" = "hello world 1" ] && [ "$line" = "hello world 2" ] && [ "$(cat /srv/shared/first)" = one ]
echo $((1 - $?)) > /logs/verifier/reward.txt\n`,
}

const end = `[[verifier.collect]]\nservice = "server"\ncommand = "cp /srv/count /srv/kept; exit 3"\n`
const top = 'artifacts = [{ source = "/srv/kept", destination = "count", service = "server" }]'

/** Registers the tests of tasks with sidecars. A sandbox that cannot build images gets the name of one. */
export function composeCases({ runner, share, sandbox }: SandboxSuite): void {
  const canBuild = sandbox !== 'kubernetes' || testRegistry !== undefined
  const dockerfile = canBuild ? { 'environment/Dockerfile': `FROM ${IMAGE}\n` } : {}
  const toml = taskToml({ top, end }, canBuild ? null : IMAGE)
  const composed = (name: string, files: Record<string, string> = {}) =>
    writeTask(join(runner.folder, name), { ...FILES, ...dockerfile, 'task.toml': toml, ...files })

  test(
    'sidecars run beside the agent and the tests; their hooks, logs and files are stored',
    async () => {
      const record = await runner.run(composed('composed'), oracle)
      expect(record, record.error ?? '').toMatchObject({
        state: 'passed',
        sidecars: [
          { name: 'first', exit: { code: 0 } },
          { name: 'server', exit: null },
        ],
        steps: [
          {
            hooks: [{ service: 'server', exit: { code: 3 } }],
            artifacts: [{ service: 'server', destination: 'count' }],
          },
        ],
      })
      expect(runner.output('artifacts', 'count')).toBe('1\n')
      expect(existsSync(join(runner.folder, 'sidecar-server.log'))).toBe(true)
      expect(await runner.run(composed('composed'), nop)).toMatchObject({ state: 'failed', reward: 0 })
    },
    CASE_MS,
  )

  test.skipIf(!canBuild)(
    'a separate verifier gets the files of a sidecar but not the sidecar',
    async () => {
      const task = composed('composed apart', {
        'task.toml': taskToml({ top, end, verifier: 'environment_mode = "separate"' }, null),
        'tests/Dockerfile': `FROM ${IMAGE}\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n`,
        'tests/test.sh': `#!/bin/bash
[ "$(cat /srv/kept)" = 1 ] && ! (exec 3<> /dev/tcp/server/7000) 2> /dev/null
echo $((1 - $?)) > /logs/verifier/reward.txt\n`,
      })
      const record = await runner.run(task, oracle)
      expect(record, record.error ?? '').toMatchObject({ state: 'passed' })
    },
    CASE_MS,
  )

  test.each(
    share([
      [
        'server',
        COMPOSE.replace('test -e /srv/shared/ready', 'false').replace('retries: 50', 'retries: 2'),
        /server did not become healthy/,
      ],
      ['first', COMPOSE.replace('echo one >', 'exit 5; echo one >'), /first did not complete: code 5/],
      [
        'dead',
        COMPOSE.replace('entrypoint: ["perl"]', 'entrypoint: ["false"]'),
        /server ended \(code 1\) before it became healthy/,
      ],
    ]),
  )('a sidecar that never becomes ready (%s) is an error and never a zero', async (name, compose, error) => {
    const record = await runner.run(composed(`never ${name}`, { 'environment/docker-compose.yaml': compose }), oracle)
    expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error', reward: null })
    expect(record.error).toMatch(error)
  })

  test.each(
    share([
      ['read_only', COMPOSE.replace('tmpfs: /run', 'read_only: true'), /read_only \(services\.server\)/],
      [
        'platform',
        COMPOSE.replace('tmpfs: /run', 'platform: linux/s390x'),
        /platform: linux\/s390x \(services\.server\)/,
      ],
      [
        'health',
        COMPOSE.replace('condition: service_completed_successfully', 'condition: service_healthy'),
        /until first is healthy/,
      ],
    ]),
  )('unsupported compose features are rejected by name before anything runs: %s', async (name, compose, sentence) => {
    const task = composed(`refused ${name}`, { 'environment/docker-compose.yaml': compose })
    await expect(runner.run(task, oracle)).rejects.toThrow(SandboxUnsupported)
    await expect(runner.run(task, oracle)).rejects.toThrow(sentence)
  })

  test('the agent reaches neither the internet nor a name server beside its sidecars', async () => {
    const record = await runner.run(
      composed('contained'),
      createCommandHarness('(exec 3<> /dev/tcp/1.1.1.1/80) || getent hosts example.com || exit 7'),
    )
    expect(record.steps[0]?.agent).toMatchObject({ code: 7 })
  })
}
