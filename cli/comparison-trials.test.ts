import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay, launch, scratchFolder } from '../test/support/assay-command.ts'

const scratch = scratchFolder()
let service: ReturnType<typeof launch>
let env: Record<string, string>

/** Two tasks, one of which has an image that cannot be built. */
beforeAll(async () => {
  const dataset = join(scratch.path, 'registry', 'lab', 'two')
  for (const name of ['here', 'broken']) cpSync('samples/tasks/greet-in-bash', join(dataset, name), { recursive: true })
  writeFileSync(
    join(dataset, 'broken', 'environment', 'Dockerfile'),
    'FROM debian:bookworm-slim\nWORKDIR /app\nRUN exit 7\n',
  )
  service = launch(['serve', '--data', join(scratch.path, 'data'), '--port', '0'], {
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_REGISTRIES: `dir:${join(scratch.path, 'registry')}`,
    ASSAY_LOG: 'error',
    DOCKER_HOST: 'unix:///nowhere.sock',
  })
  const said = await service.ready
  env = { ASSAY_URL: /^assay ready (.*)$/m.exec(said)?.[1] ?? '', ASSAY_KEY: /assay_\w{38}/.exec(said)?.[0] ?? '' }
  const added = await assay(['benchmarks', 'add', 'lab/two'], { env })
  expect(added.code, added.err).toBe(0)
})
afterAll(async () => {
  service.child.kill('SIGTERM')
  await service.exited
  scratch.remove()
})

const idIn = (err: string) => /^Comparison ([0-9a-f-]{36})\. Ctrl-C leaves it running\.$/m.exec(err)?.[1] ?? 'none'

test('prints the reasons of errored trials with counts, and lists the trials', async () => {
  const { code, out, err } = await assay(['compare', 'lab/two', '--sandbox', 'local', '--harness', 'oracle'], { env })
  expect(code, err).toBe(0)
  expect(out).toMatch(/^reference\|oracle\|none +1\/1 +100\.0 % .* 0 +1 +yes$/m)
  expect(err).toMatch(/^1 trial errored and is not scored:\n {2}1 × Line 3 of the Dockerfile: RUN ended with 7\.$/m)
  const id = idIn(err)
  expect(err).toContain(`assay comparisons trials lab/two ${id} --state errored`)

  const listed = await assay(['comparisons', 'trials', 'lab/two', id, '--state', 'errored'], { env })
  expect(listed.out.split('\n')).toHaveLength(3)
  expect(listed.out).toMatch(
    /broken +reference\|oracle\|none +1 +errored +\w+_error +\S+ +Line 3 .* RUN ended with 7\./,
  )
  const all = await assay(['--json', 'comparisons', 'trials', 'lab/two', id], { env })
  expect(
    JSON.parse(all.out)
      .trials.map(({ state }: { state: string }) => state)
      .toSorted(),
  ).toEqual(['errored', 'passed'])
  const shown = await assay(['comparisons', 'show', 'lab/two', id], { env })
  expect(shown.err).toContain('1 trial errored')
})

test('refuses a state that no trial has and lists the existing ones', async () => {
  const id = '0198c0de-0000-7000-8000-000000000000'
  const { code, err } = await assay(['comparisons', 'trials', 'lab/two', id, '--state', 'lost'], { env })
  expect(code).toBe(2)
  expect(err).toContain('--state must be one of: queued, running, passed, failed, errored, canceled.')
})
