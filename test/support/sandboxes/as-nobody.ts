import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { isLongRun } from '../parts.ts'

export const NOBODY = 65534
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

type SuiteResult = { code: number | null; output: string }

/** The user that runs a suite, and the cgroup in which it runs, if not that of this process. */
type SuiteUser = { uid: number; gid: number; cgroup?: string }

/** Enters a cgroup as root, then runs the command as another user. */
const ENTER = 'echo 0 > "$1/cgroup.procs" && shift && exec setpriv "$@"'

/** Runs a suite of this folder as an ordinary user, whose home is a folder that `prepare` has filled. */
export async function runAsUser(
  { uid, gid, cgroup }: SuiteUser,
  suite: string,
  prepare: (home: string) => Promise<void>,
): Promise<SuiteResult> {
  const home = await mkdtemp(join(tmpdir(), 'assay-ordinary-'))
  try {
    const config = join(home, 'vitest.config.mjs')
    const include = [`test/support/sandboxes/${suite}`]
    await writeFile(
      config,
      `export default ${JSON.stringify({ root: ROOT, cacheDir: home, test: { include, testTimeout: 120_000 } })}`,
    )
    await prepare(home)
    await chown(home, uid, gid)
    const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
    const command = [process.execPath, vitest, 'run', '--no-color', '--reporter=dot', '--config', config]
    const identity = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
    const [program, ...args] = cgroup
      ? ['sh', '-c', ENTER, 'enter', cgroup, ...identity, ...command]
      : ['setpriv', ...identity, ...command]
    const child = spawn(program ?? '', args, {
      cwd: ROOT,
      env: environmentIn(home),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    return { code, output }
  } finally {
    await rm(home, { recursive: true })
  }
}

export const runAsNobody = (suite: string, prepare: (home: string) => Promise<void>): Promise<SuiteResult> =>
  runAsUser({ uid: NOBODY, gid: NOBODY }, suite, prepare)

const environmentIn = (home: string): Record<string, string> => ({
  PATH: `${dirname(process.execPath)}:/usr/sbin:/usr/bin:/bin`,
  HOME: home,
  TMPDIR: home,
  ...(isLongRun() ? { ASSAY_TEST_LONG: '1' } : {}),
})
