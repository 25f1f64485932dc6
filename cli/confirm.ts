import { Canceled } from './failure.ts'
import { type Shell, safeLine } from './shell.ts'

export const YES = ['--yes', 'Do not ask for confirmation'] as const
export type YesFlag = { yes?: boolean }

/** Returns true if a person can be asked. */
export const isInteractive = (shell: Shell): boolean => Boolean(shell.input().isTTY) && Boolean(shell.errors.isTTY)

/**
 * Asks for confirmation on a terminal and throws `Canceled` unless the answer is yes. Does not ask without a terminal or
 * with --yes.
 */
export async function requireConfirmation(shell: Shell, question: string, { yes = false }: YesFlag): Promise<void> {
  if (yes || !isInteractive(shell)) return
  const input = shell.input()
  const { confirm } = await import('@clack/prompts')
  const answer = await confirm({
    message: safeLine(shell.errors, question),
    initialValue: false,
    input,
    output: shell.errors,
  })
  if (answer !== true) throw new Canceled()
}
