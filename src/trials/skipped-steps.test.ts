import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

/** A task whose first step needs two rewards for the second one to run. */
const writeSteps = (folder: string, strategy: string): string => {
  const score = (line: string) => `#!/bin/bash\nmkdir -p /logs/verifier\n${line} > /logs/verifier/reward.json\n`
  return writeTask(folder, {
    'task.toml': `multi_step_reward_strategy = "${strategy}"\n${taskToml(
      { end: '[[steps]]\nname = "one"\nmin_reward = { reward = 1.0, rows = 1.0 }\n[[steps]]\nname = "two"\n' },
      IMAGE,
    )}`,
    'steps/one/instruction.md': 'Write one.\n',
    'steps/one/tests/test.sh': score(
      `if [ -e /app/extra ]; then echo '{"reward": 1, "rows": 0}'; else echo '{"reward": 1, "rows": 1}'; fi`,
    ),
    'steps/two/instruction.md': 'Write two.\n',
    'steps/two/tests/test.sh': score(`if [ -e /app/two ]; then echo '{"reward": 1}'; else echo '{"reward": 0}'; fi`),
  })
}

inSandboxes(({ runner }) => {
  test.each(['final', 'mean'])(
    'an agent cannot pass by ending the trial before the last step (%s)',
    async (strategy) => {
      const task = writeSteps(join(runner.folder, `skipped-${strategy}`), strategy)
      const skipped = await runner.run(task, createCommandHarness('touch /app/extra'), 'workspace')
      expect(skipped.steps.map(({ rewards }) => rewards)).toEqual([{ reward: 1, rows: 0 }])
      expect(skipped).toMatchObject({ state: 'failed', reward: strategy === 'final' ? 0 : 0.5 })
      expect((await runner.run(task, createCommandHarness('touch /app/two'), 'workspace')).state).toBe('passed')
    },
  )
})
