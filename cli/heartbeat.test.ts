import { expect, test, vi } from 'vitest'
import { newKey } from '../src/workspaces/key.ts'
import { launch, localServer } from '../test/support/assay-command.ts'

const ID = '0198c0de-0000-7000-8000-000000000000'
const repo = ['--repo', 'lab/demo']

/** The lines are printed every 9 seconds. */
const WAIT = { timeout: 60_000 }

test.concurrent.each([
  [['compare', 'assay/quick']],
  [['comparisons', 'watch', 'assay/quick', ID]],
  [['batches', 'create', '--easy', '1', ...repo]],
  [['batches', 'watch', `batch-${ID}`, ...repo]],
])(
  '%j says that it waits for a service that does not answer',
  async (args) => {
    await using server = await localServer(() => {})
    const waiting = launch(args, { ASSAY_URL: server.url, ASSAY_KEY: newKey() })
    waiting.ready.catch(() => undefined) // it is no service
    await vi.waitFor(() => expect(waiting.err.text()).toContain('Waiting for the service.'), WAIT)
    waiting.child.kill('SIGKILL')
    await waiting.exited
  },
  90_000,
)
