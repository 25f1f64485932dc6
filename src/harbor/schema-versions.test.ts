import { expect, test } from 'vitest'
import { readTaskToml, summarizeFindings } from '../../test/support/harbor/small-task.ts'

const settings = 'cpus = 2\nmemory_mb = 512\nstorage_mb = 1024\ngpus = 0\n'

test.each([
  ['1.0', `version = "1.0"\n[agent]\ntimeout_sec = 60\n[environment]\n${settings}allow_internet = false\n`],
  [
    '1.0, before there were megabytes',
    'version = "1.0"\nagent = {timeout_sec = 60}\n[environment]\ncpus = 2\ngpus = 0\nmemory = "512M"\nstorage = "1G"\nallow_internet = false\n',
  ],
  ['1.1', `schema_version = "1.1"\n[agent]\ntimeout_sec = 60\n[environment]\n${settings}allow_internet = false\n`],
  ['1.2', `schema_version = "1.2"\n[agent]\ntimeout_sec = 60\n[environment]\n${settings}allow_internet = false\n`],
  ['1.3', `schema_version = "1.3"\n[agent]\ntimeout_sec = 60\n[environment]\n${settings}network_mode = "no-network"\n`],
  ['1.4', `schema_version = "1.4"\n[agent]\ntimeout_sec = 60\n[environment]\n${settings}network_mode = "no-network"\n`],
  ['none', `[agent]\ntimeout_sec = 60\n[environment]\n${settings}network_mode = "no-network"\n`],
])('reads the deprecated form %s like the new one', async (_, toml) => {
  const newest = `schema_version = "1.4"\nagent.timeout_sec = 60\n[environment]\n${settings}network_mode = "no-network"\n`

  expect((await readTaskToml(toml)).task).toEqual((await readTaskToml(newest)).task)
})

test.each([
  ['version = "1.0"', 600, 1, 2048, 10_240],
  ['schema_version = "1.1"', null, 1, 2048, 10_240],
  ['schema_version = "1.2"', null, 1, 2048, 10_240],
  ['schema_version = "1.3"', null, null, null, null],
  ['schema_version = "1.4"', null, null, null, null],
  ['schema_version = "1.9"', null, null, null, null],
  ['', null, null, null, null],
])('applies the defaults of the schema version to %j', async (toml, timeoutSec, cpus, memoryMb, storageMb) => {
  const { task } = await readTaskToml(toml)

  expect(task.steps[0].agent.timeoutSec).toBe(timeoutSec)
  expect(task.environment.resources).toMatchObject({ cpus, memoryMb, storageMb })
})

test('warns about deprecated, unknown and ineffective keys and nothing else', async () => {
  const { warnings } = await readTaskToml(`
version = "1.0"
multi_step_reward_strategy = "mean"
tmeout = 5
agent = { timeout_sec = "60", max_turns = 9 }
[environment]
memory = "1G"
allow_internet = true
mcp_servers = [{ name = "a", url = "http://a", command = "b" }]
`)

  expect(summarizeFindings(warnings).toSorted()).toEqual([
    'deprecated_key environment.allow_internet',
    'deprecated_key environment.memory',
    'deprecated_key version',
    'ignored_key environment.mcp_servers.0.command',
    'ignored_key multi_step_reward_strategy',
    'number_in_text agent.timeout_sec',
    'unknown_key agent.max_turns',
    'unknown_key tmeout',
  ])
})
