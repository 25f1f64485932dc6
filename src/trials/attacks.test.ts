import { beforeAll, expect, test } from 'vitest'
import { type AttackedTask, PLAIN_TASKS, writeAttackedTasks } from '../../test/support/trials/attacked-tasks.ts'
import { ATTACKED_MODES, ATTACKS, type Attack } from '../../test/support/trials/attacks.ts'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { openFolderSource } from '../harbor/folder-source.ts'
import { readTask } from '../harbor/read-task.ts'
import { createCommandHarness, oracle } from '../harnesses/reference.ts'
import { chooseMode } from './calibrate.ts'
import type { VerifyMode } from './record.ts'
import { findStaticWeakness } from './verifier-strength.ts'

const isPlain = (task: AttackedTask): boolean => PLAIN_TASKS.some((name) => name === task)

const attackedModes = ({ wins }: Pick<Attack, 'wins'>) => ATTACKED_MODES.filter((mode) => wins[mode] !== undefined)

const wonIn = ({ wins }: Attack, mode: VerifyMode) => (mode === 'shared-live' ? 1 : wins[mode])

inSandboxes(({ runner, share, isFull }) => {
  const attacks = share(ATTACKS.filter(({ task }) => isPlain(task)))
  const attackedTasks = PLAIN_TASKS.filter((task) => attacks.some((attack) => attack.task === task))
  let folderOf: ReturnType<typeof writeAttackedTasks>
  beforeAll(() => {
    folderOf = writeAttackedTasks(runner.folder)
  })

  test.each(attackedTasks)(
    'the attacked task %s can be solved in every mode in which it is attacked',
    async (task) => {
      const wins: Attack['wins'] = ATTACKS.find((attack) => attack.task === task)?.wins ?? {}
      for (const mode of attackedModes({ wins })) {
        expect(await runner.run(folderOf(task, mode === 'grader'), oracle, mode), task).toMatchObject({
          state: 'passed',
          verifyMode: mode,
        })
      }
    },
    60_000,
  )

  test.runIf(isFull).each(PLAIN_TASKS)(
    'the task %s is marked as weak if an attack wins in its calibrated mode',
    async (task) => {
      const folder = folderOf(task, false)
      const { task: read, digest } = await readTask(await openFolderSource(folder))
      const signal = new AbortController().signal
      const options = { variables: {}, signal, onPhase: () => {}, outputFolder: runner.folder }
      const request = { task: read, digest, folder, ...options }
      const found = await chooseMode(runner.provider, request)
      if (found.kind === 'unfit') throw new Error(found.reason)
      const weakness = await findStaticWeakness(runner.provider, request, found)
      const wins = ATTACKS.filter((attack) => attack.task === task).map((attack) => wonIn(attack, found.mode))
      if (wins.includes(1)) expect(weakness).toEqual(expect.any(String))
      if (task === 'hello' || task.startsWith('system-')) expect(weakness).toBeNull()
    },
    60_000,
  )

  test.each(attacks)(
    'attack: $name',
    async (attack) => {
      for (const mode of attackedModes(attack)) {
        const folder = folderOf(attack.task, mode === 'grader')
        const { state, error } = await runner.run(folder, createCommandHarness(attack.line), mode, { isProven: true })
        const expected =
          attack.wins[mode] === 'race' ? expect.any(String) : attack.wins[mode] === 1 ? 'passed' : 'failed'
        expect({ mode, state, error }).toEqual({ mode, state: expected, error: null })
      }
    },
    60_000,
  )
})
