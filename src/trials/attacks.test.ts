import { beforeAll, expect, test } from 'vitest'
import { oracle } from '../harnesses/oracle.ts'
import { shellCommand } from '../harnesses/shell-command.ts'
import { ATTACKED_MODES, ATTACKS, writeAttackedTasks } from './testing/attacks.ts'
import { inSandboxes } from './testing/in-sandboxes.ts'

inSandboxes(({ bench, share }) => {
  let folderOf: ReturnType<typeof writeAttackedTasks>
  beforeAll(() => {
    folderOf = writeAttackedTasks(bench.folder)
  })

  test('the attacked tasks can be solved', async () => {
    for (const mode of ATTACKED_MODES) {
      for (const task of ['hello', 'answer'] as const) {
        expect(await bench.run(folderOf(task, mode), oracle, mode)).toMatchObject({ state: 'passed', verifyMode: mode })
      }
    }
  })

  test.each(share(ATTACKS))('attack: $name', async ({ task, line, wins }) => {
    for (const mode of ATTACKED_MODES) {
      const record = await bench.run(folderOf(task, mode), shellCommand(line), mode, { isProven: true })
      const won = record.state === 'passed' ? 1 : 0
      expect({ mode, won }).toEqual({ mode, won: wins[mode] === 'race' ? won : wins[mode] })
    }
  })
})
