import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const compose = (volume: string) => `services:
  main:
    volumes: ["${volume}"]
  store:
    image: a/b
    volumes: ["shared:/data"]
volumes:
  shared:
`
const TASK = {
  'task.toml': '[environment]\ndocker_image = "a/b"\nworkdir = "/app"\n',
  'tests/test.sh':
    '#!/bin/bash\nif cmp -s /data/answer /tests/expected; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
}

test('tests that share a writable volume with the agent are weak', async () => {
  const files = { ...TASK, 'environment/docker-compose.yaml': compose('shared:/data') }
  expect(await estimateFiles(files)).toMatchObject({
    strength: 'weak',
    reason: 'The volume /data brings files of the agent to the tests without a check.',
  })
})

test('a volume that the agent can only read, and one of its own, make no difference', async () => {
  const readOnly = { ...TASK, 'environment/docker-compose.yaml': compose('shared:/data:ro') }
  expect(await estimateFiles(readOnly)).toMatchObject({ strength: 'standard' })
  const own = { ...TASK, 'environment/docker-compose.yaml': compose('/data') }
  expect(await estimateFiles(own)).toMatchObject({ strength: 'standard' })
})

test('a separate verifier has volumes of its own', async () => {
  const separate = `artifacts = ["/app/x"]\n${TASK['task.toml']}[verifier]\nenvironment_mode = "separate"\n`
  const files = { ...TASK, 'task.toml': separate, 'environment/docker-compose.yaml': compose('shared:/data') }
  expect(await estimateFiles(files)).toMatchObject({ strength: 'strong' })
})
