import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay } from '../test/support/assay-command.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-completion-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

async function writeScript(shell: string): Promise<string> {
  const { code, out, err } = await assay(['completion', shell])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const path = join(folder, `assay.${shell}`)
  writeFileSync(path, out)
  return path
}

const hasProgram = (name: string): boolean => spawnSync(name, ['--version']).status === 0

const LINES: [string, string[]][] = [
  ['assay completi', ['completion']],
  ['assay comparisons wat', ['watch']],
  ['assay --url http://127.0.0.1:1 comparisons wat', ['watch']],
  ['assay compare --trial-b', ['--trial-budget']],
]

test('bash completes commands, subcommands and options', async () => {
  const script = await writeScript('bash')
  for (const [line, completions] of LINES) {
    const code = `source ${script}; COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _assay; echo "\${COMPREPLY[@]}"`
    expect(execFileSync('bash', ['-c', code], { encoding: 'utf8' }).trim().split(' ')).toEqual(completions)
  }
})

test.skipIf(!hasProgram('fish'))('fish completes commands, subcommands and options', async () => {
  const script = await writeScript('fish')
  for (const [line, completions] of LINES) {
    const out = execFileSync('fish', ['-c', `source ${script}; complete -C '${line}'`], {
      encoding: 'utf8',
      cwd: folder,
    })
    expect(out.split('\n').flatMap((row) => row.split('\t')[0] || [])).toEqual(completions)
  }
})

test.skipIf(!hasProgram('zsh'))('zsh accepts the script and uses it for assay', async () => {
  const code = `autoload -Uz compinit; compinit -u -D; source ${await writeScript('zsh')}; echo $_comps[assay]`
  const out = execFileSync('zsh', ['-fc', code], { encoding: 'utf8' })
  expect(out.trim()).toBe('_bash_complete -o default -F _assay')
})

test('a shell without a script is refused with the list of shells', async () => {
  const { code, err } = await assay(['completion', 'tcsh'])
  expect(code).toBe(2)
  expect(err).toContain('Allowed choices are bash, zsh, fish.')
})
