import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const TOML = '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n'
const TEST = {
  'tests/test.sh':
    '#!/bin/bash\nif cmp -s /app/answer /tests/expected; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
}
const withMain = (lines: string, toml = TOML) =>
  estimateFiles({
    ...TEST,
    'task.toml': toml,
    'environment/docker-compose.yaml': `services:\n  main:\n    ${lines.replaceAll('\n', '\n    ')}\n`,
  })

test.each([
  ['command: ["make", "serve"]', 'make serve'],
  ['command: npm start', 'npm start'],
  ['command: ["python3", "-m", "app"]', 'python3 -m app'],
  ['entrypoint: ["/bin/sh", "-c"]\ncommand: ["exec uvicorn main:app"]', "/bin/sh -c 'exec uvicorn main:app'"],
  ['entrypoint: ["/start"]', "/start sh -c 'sleep infinity'"],
  ['healthcheck:\n  test: ["CMD", "/app/healthy"]', '/app/healthy'],
  ['healthcheck:\n  test: make check', 'make check'],
  ['command: ["redis-server", "/app/redis.conf"]', 'redis-server /app/redis.conf'],
])('tests in an environment with %s are weak', async (lines, command) => {
  expect(await withMain(lines)).toEqual({
    strength: 'weak',
    reason: `The verifier's environment runs ${command}, which the submission can change.`,
  })
})

test.each([
  'command: ["sleep", "infinity"]',
  'command: tail -f /dev/null',
  'command: ["nginx", "-g", "daemon off;"]',
  'command: ["sh", "-c", "redis-server --port 7000 & sleep infinity"]',
  'healthcheck:\n  test: ["CMD-SHELL", "curl -fsS http://127.0.0.1:8080/ || exit 1"]',
  'healthcheck:\n  test: ["CMD", "pg_isready", "-U", "app"]',
])('tests in an environment with %s are standard', async (lines) => {
  expect(await withMain(lines)).toMatchObject({ strength: 'standard' })
})

test('a command that runs outside the working directory of the agent is no weakness of a separate verifier', async () => {
  const separate = `artifacts = ["/app/answer"]\n${TOML}[verifier]\nenvironment_mode = "separate"\n`
  expect(await withMain('command: ["make", "serve"]', separate)).toMatchObject({ strength: 'strong' })
})

test('tests in an image whose search path has shims of a version manager are weak', async () => {
  const dockerfile = 'FROM debian\nWORKDIR /app\nENV PATH=/root/.asdf/shims:$PATH\n'
  const files = { ...TEST, 'task.toml': '[environment]\n', 'environment/Dockerfile': dockerfile }
  expect(await estimateFiles(files)).toEqual({
    strength: 'weak',
    reason:
      "The variable PATH of the verifier's environment names shims, which search the current directory for versions.",
  })
})
