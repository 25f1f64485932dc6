import { expect, test, vi } from 'vitest'
import { assay, launch, scratchFolder } from '../test/support/assay-command.ts'

test('prints what a waiting batch waits for, also without a terminal', async () => {
  const scratch = scratchFolder()
  const service = launch(['serve', '--data', scratch.path, '--port', '0'], {
    ASSAY_SANDBOXES: 'docker',
    DOCKER_HOST: 'unix:///nowhere.sock',
    ASSAY_LOG: 'error',
  })
  const said = await service.ready
  const env = {
    ASSAY_URL: /^assay ready (.*)$/m.exec(said)?.[1] ?? '',
    ASSAY_KEY: /assay_\w{38}/.exec(said)?.[0] ?? '',
  }
  const repo = ['--repo', 'lab/demo']
  await assay(['repos', 'connect', 'lab/demo', '--git', 'https://git.example.org/demo.git'], { env })
  const { out, err } = await assay(['batches', 'import', 'samples/tasks/greet-in-bash', ...repo], { env })
  expect(out, err).toMatch(/^batch-/)

  const watching = launch(['batches', 'watch', out.trim(), ...repo], env)
  watching.ready.catch(() => undefined) // it is no service
  await vi.waitFor(() => expect(watching.err.text()).toContain('Waiting for sandbox'), 30_000)
  watching.child.kill('SIGINT')
  expect(await watching.exited).toBe(0)
  service.child.kill('SIGTERM')
  await service.exited
  scratch.remove()
})
