import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (command: string, service = '') =>
  estimateFiles({
    'task.toml': `[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n[verifier]\nenvironment_mode = "separate"\n[[verifier.collect]]\ncommand = '''${command}'''\n${service}`,
    'tests/test.sh':
      '#!/bin/bash\nif cmp -s /logs/artifacts/out /tests/expected; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
    'tests/Dockerfile': 'FROM debian:bookworm-slim\nCOPY . /tests\n',
    'environment/docker-compose.yaml': 'services:\n  main: {}\n  db:\n    image: a/b\n',
  })

test.each([
  'cd /app && python3 -m unittest > /logs/artifacts/log 2>&1; echo $? > /logs/artifacts/out',
  'grep -c password /app/settings > /logs/artifacts/out',
  'curl -s http://127.0.0.1:8080/health > /logs/artifacts/out',
  'wc -l < /app/out > /logs/artifacts/out',
  'make -C /app check && echo ok > /logs/artifacts/out',
  'echo "$(ls /app | wc -l)" > /logs/artifacts/out',
  'cd /app && git status --porcelain > /logs/artifacts/out',
  'git -C /app log --oneline > /logs/artifacts/out',
  'git -C /app diff --stat HEAD > /logs/artifacts/out',
  "git -c alias.x='!python3 check.py' x > /logs/artifacts/out",
  'find /app -name "*.py" -exec python3 {} \\; > /logs/artifacts/out',
  'find /app -name "*.log" > /logs/artifacts/out',
  "sed -n '$=' /app/out > /logs/artifacts/out",
  "sed '1e ./check' /app/out > /logs/artifacts/out",
])('a hook that measures in the agent’s environment makes the verifier weak: %s', async (command) => {
  const reason = `The hook ${command.slice(0, 80)} measures in the environment of the agent, which can forge it.`
  expect(await estimate(command)).toEqual({ strength: 'weak', reason })
})

test.each([
  'cp /app/out /logs/artifacts/out',
  'mkdir -p /logs/artifacts && cat /app/part-* > /logs/artifacts/out',
  'cd /app && git diff HEAD > /logs/artifacts/out',
  'git -C /app add -A && git -C /app diff --cached --binary > /logs/artifacts/out',
  'git -C /app archive HEAD > /logs/artifacts/out',
  'find /app -name "*.txt" -exec cp {} /logs/artifacts \\;',
  'find /app -name "*.txt" -print0 | tar -cf /logs/artifacts/out --null -T -',
  "sed -n '1,5p' /app/out > /logs/artifacts/out",
  '[ -f /app/out ] && cp /app/out /logs/artifacts/out || echo missing > /logs/artifacts/out',
])('a hook that copies files does not: %s', async (command) => {
  expect(await estimate(command)).toMatchObject({ strength: 'strong' })
})

test('a hook of a service, which the agent cannot change, may measure', async () => {
  expect(await estimate('curl -s localhost > /srv/out', 'service = "db"\n')).toMatchObject({ strength: 'strong' })
})
