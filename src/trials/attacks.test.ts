import { beforeAll, expect, test } from 'vitest'
import { oracle } from '../harnesses/oracle.ts'
import { shellCommand } from '../harnesses/shell-command.ts'
import { type AttackedTask, PLAIN_TASKS, writeAttackedTasks } from './testing/attacked-tasks.ts'
import { ATTACKED_MODES, ATTACKS, type Attack } from './testing/attacks.ts'
import { inSandboxes } from './testing/in-sandboxes.ts'

const isPlain = (task: AttackedTask): boolean => PLAIN_TASKS.some((name) => name === task)

const attackedModes = ({ wins }: Pick<Attack, 'wins'>) => ATTACKED_MODES.filter((mode) => wins[mode] !== undefined)

inSandboxes(({ bench, share }) => {
  let folderOf: ReturnType<typeof writeAttackedTasks>
  beforeAll(() => {
    folderOf = writeAttackedTasks(bench.folder)
  })

  test('the attacked tasks can be solved', async () => {
    for (const task of PLAIN_TASKS) {
      const wins: Attack['wins'] = ATTACKS.find((attack) => attack.task === task)?.wins ?? {}
      for (const mode of attackedModes({ wins })) {
        expect(await bench.run(folderOf(task, mode === 'grader'), oracle, mode), task).toMatchObject({
          state: 'passed',
          verifyMode: mode,
        })
      }
    }
  }, 60_000)

  test.each(share(ATTACKS.filter(({ task }) => isPlain(task))))(
    'attack: $name',
    async (attack) => {
      for (const mode of attackedModes(attack)) {
        const folder = folderOf(attack.task, mode === 'grader')
        const { state, error } = await bench.run(folder, shellCommand(attack.line), mode, { isProven: true })
        const expected =
          attack.wins[mode] === 'race' ? expect.any(String) : attack.wins[mode] === 1 ? 'passed' : 'failed'
        expect({ mode, state, error }).toEqual({ mode, state: expected, error: null })
      }
    },
    60_000,
  )
})
