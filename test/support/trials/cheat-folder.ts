import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import type { Cheat } from '../../../src/trials/cheats/cheat.ts'

/** Gives each test of a file a working directory, and runs cheats that use a reference solution in it. */
export function useCheatFolder() {
  let folder: string
  let scripts: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'assay-cheats-'))
    scripts = mkdtempSync(join(tmpdir(), 'assay-solution-'))
  })
  afterEach(() => {
    for (const path of [folder, scripts]) rmSync(path, { recursive: true, force: true })
  })
  return {
    read: (path: string): string => readFileSync(join(folder, path), 'utf8').trim(),
    remove: (path: string): void => rmSync(join(folder, path)),
    /** Returns what a program in Python prints. */
    print: (lines: string): string =>
      spawnSync('python3', ['-c', lines], { cwd: folder, encoding: 'utf8' }).stdout.trim(),
    /** Returns the exit status of a cheat. `solved`: the files that the solution writes. */
    solveWith(cheat: Cheat, solutionScript: string, solved: string[]): number | null {
      const solution = join(scripts, 'solve.sh')
      writeFileSync(solution, `#!/bin/sh\n${solutionScript}\n`, { mode: 0o755 })
      const path = '/usr/sbin:/usr/bin:/sbin:/bin'
      const env = { PATH: path, HOME: folder, solution, solved: solved.join('\n'), carried: '' }
      return spawnSync('sh', ['-c', cheat.script], { cwd: folder, env, input: '' }).status
    },
  }
}
