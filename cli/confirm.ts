import { Canceled } from './failure.ts'
import { type Shell, safeLine } from './shell.ts'

export const YES = ['--yes', 'do not ask'] as const
export type YesFlag = { yes?: boolean }

/** Asks for confirmation on a terminal. Without a terminal it does not ask. */
export async function requireConfirmation(shell: Shell, question: string, { yes = false }: YesFlag): Promise<void> {
  const input = shell.input()
  if (yes || !input.isTTY || !shell.errors.isTTY) return
  const { confirm } = await import('@clack/prompts')
  const answer = await confirm({
    message: safeLine(shell.errors, question),
    initialValue: false,
    input,
    output: shell.errors,
  })
  if (answer !== true) throw new Canceled()
}
