import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

/** Tests that record the files that the verifier sees. */
const lookingTask = (folder: string, script: string, workdir = '/app'): string =>
  writeTask(folder, {
    'task.toml': taskToml().replace('workdir = "/app"', `workdir = "${workdir}"`),
    'tests/test.sh': `#!/bin/bash\n(${script}) 2>&1; echo 0 > /logs/verifier/reward.txt\n`,
  })

const REPOSITORY = `mkdir -p $1/objects $1/refs $1/hooks; printf '[core]\\n\\tfsmonitor = /app/run\\n[user]\\n\\tname = somebody\\n' > $1/config
printf '#!/bin/sh\\n' > $1/hooks/pre-commit; chmod 755 $1/hooks/pre-commit`

inSandboxes(({ runner, isFull }) => {
  const seen = async (task: string, line: string): Promise<string> => {
    const record = await runner.run(task, createCommandHarness(line), 'workspace', { isProven: true })
    expect(record).toMatchObject({ state: 'failed', error: null })
    return runner.output('verifier-1.log')
  }

  test('git settings and hooks that the agent wrote do not reach the tests, wherever the repository is', async () => {
    const look = `for d in .git deep/er linked; do cat $d/config; ls -l $d/hooks/pre-commit | cut -c1-10; done
env | grep -c ^GIT_CONFIG_KEY; cat other/config`
    const task = lookingTask(join(runner.folder, 'git look'), look)
    const agent = `set -- .git; ${REPOSITORY}; set -- deep/er; ${REPOSITORY}; set -- linked; ${REPOSITORY}
rm linked/config linked/hooks/pre-commit; ln -s ../settings linked/config; echo '[core]' > settings; ln -s ../../run linked/hooks/pre-commit
echo x > run; mkdir other; printf '[core]\\n\\tfsmonitor = mine\\n' > other/config`
    const output = await seen(task, agent)
    const repository = '[user]\n\tname = "somebody"\n-rw-r--r--\n'
    expect(output).toBe(`${repository}${repository}-rw-r--r--\n7\n[core]\n\tfsmonitor = mine\n`)
  })

  test.runIf(isFull)('git settings do not reach a separate verifier with the artifacts either', async () => {
    const task = writeTask(join(runner.folder, 'separate'), {
      'task.toml': taskToml({ top: 'artifacts = ["/app"]', verifier: 'environment_mode = "separate"' }),
      'tests/test.sh':
        '#!/bin/bash\ncat /app/.git/config; env | grep -c ^GIT_CONFIG_KEY; echo 0 > /logs/verifier/reward.txt\n',
    })
    expect(await seen(task, `set -- .git; ${REPOSITORY}`)).toBe('[user]\n\tname = "somebody"\n7\n')
  })

  test.runIf(isFull)('a repository in a folder whose name cannot be read is not submitted', async () => {
    const task = lookingTask(join(runner.folder, 'unreadable'), 'ls -A /app | wc -l')
    const agent = `d=$(printf 'x\\377'); set -- "$d"; mkdir -p "$d/objects" "$d/refs"; printf '[core]\\n\\tfsmonitor = /app/run\\n' > "$d/config"`
    const record = await runner.run(task, createCommandHarness(agent), 'workspace', { isProven: true })
    expect(record).toMatchObject({
      state: 'failed',
      steps: [{ notes: [expect.stringContaining('cannot be inspected')] }],
    })
  })

  test('the home directory is empty if it is part of the submission, and otherwise that of the image', async () => {
    const look = 'echo $HOME; ls -A $HOME | grep -c planted; touch $HOME/x && echo writable'
    const inside = lookingTask(join(runner.folder, 'home inside'), look, '/root')
    expect(await seen(inside, 'echo x > /root/planted')).toBe('/assay/home\n0\nwritable\n')
    const outside = lookingTask(join(runner.folder, 'home outside'), look)
    expect(await seen(outside, 'echo x > /root/planted')).toBe('/root\n0\nwritable\n')
    expect(await seen(outside, 'sed -i s#/root#/app# /etc/passwd; echo x > planted')).toBe('/assay/home\n0\nwritable\n')
  })
})
