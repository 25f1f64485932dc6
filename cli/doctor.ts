import type { Command } from 'commander'
import type { Diagnosis } from '../src/operate/machine-checks.ts'
import { withExample, withGlobals } from './help.ts'
import { buildEnvironment, DATA, type Flags } from './operate-config.ts'
import { readGlobals } from './service.ts'
import { note, print, printJson, type Shell, styled } from './shell.ts'
import { alignColumns } from './table.ts'

export function addDoctorCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('doctor'), '--json', '--url')
      .description('Check this machine and its configuration, and show how to fix problems')
      .option(...DATA)
      .action((flags: Flags, command: Command) => runDoctor(shell, flags, command)),
    'assay doctor --data /var/lib/assay',
  )
}

async function runDoctor(shell: Shell, flags: Flags, command: Command): Promise<void> {
  const { diagnose } = await import('../src/operate/doctor.ts')
  const { url, json } = readGlobals(command)
  const checks = await diagnose({ ...buildEnvironment(shell, flags), ...(url === undefined ? {} : { ASSAY_URL: url }) })
  const failed = checks.filter(({ ok, required }) => required && !ok)
  if (json) printJson(shell, { ok: failed.length === 0, checks })
  else printChecks(shell, checks)
  await waitUntilWritten(shell)
  // Exits explicitly, because a check that hangs would keep the process alive.
  process.exit(failed.length === 0 ? 0 : 1)
}

const waitUntilWritten = ({ output }: Shell): Promise<void> =>
  new Promise((resolve) => output.write('', () => resolve()))

function printChecks(shell: Shell, checks: Diagnosis[]): void {
  const lines = alignColumns(checks.map(({ name, detail }) => [name, detail]))
  for (const [index, check] of checks.entries()) {
    print(shell, `${formatResult(shell, check)} ${lines[index]}`)
    if (check.fix !== null) print(shell, `    fix: ${check.fix}`)
  }
  const failed = checks.filter(({ ok, required }) => required && !ok).length
  note(
    shell,
    failed === 0 ? 'All required checks passed.' : `${failed} required ${failed === 1 ? 'check' : 'checks'} failed.`,
  )
}

function formatResult(shell: Shell, { ok, required }: Diagnosis): string {
  if (ok) return styled(shell.output, 'green', '✓')
  return required ? styled(shell.output, 'red', '✗') : styled(shell.output, 'yellow', '–')
}
