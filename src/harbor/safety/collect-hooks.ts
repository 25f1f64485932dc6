import { MAIN_SERVICE } from '../settings.ts'
import type { CollectHook } from '../task.ts'
import { parseShell } from './shell-parser.ts'
import { listCommandLists } from './shell-program-output.ts'
import { commandName, plainText, type ShellCommand } from './shell-words.ts'

// Hooks of `main` run in the agent's environment, with programs and files that it can replace. A hook that copies files
// hands over the agent's work, which the verifier compares. A hook that measures hands over a result, such as an exit
// status, which the agent can forge.

/** Programs that copy or select files, or only prepare that. */
const COPYING = new Set(
  'cp mv cat tar gzip zip mkdir rm rmdir chmod chown touch sync sleep : true cd export trap exit [ test dirname mktemp git find sed'.split(
    ' ',
  ),
)

/** Returns the first hook that may hand over more than copies of files. */
export const findMeasuringHook = (hooks: readonly CollectHook[]): CollectHook | undefined =>
  hooks.find(({ service, command }) => service === MAIN_SERVICE && measures(command))

function measures(script: string): boolean {
  try {
    const commands = parseShell(script)
    const lists = [...listCommandLists(commands)]
    const functions = new Set(lists.flatMap(({ list }) => list.map(({ kind, text }) => kind === 'function' && text)))
    const isCopying = (command: ShellCommand, isCaptured: boolean): boolean => {
      const name = commandName(command)
      if (command.kind !== 'simple' || name === '') return command.kind !== 'arithmetic'
      if (/^(?:echo|printf)$/.test(name)) return command.words.every((word) => plainText(word) !== undefined)
      return COPYING.has(name) || functions.has(name) || (name === 'wc' && isCaptured)
    }
    return !lists.every(({ list, isCaptured }) => list.every((command) => isCopying(command, isCaptured)))
  } catch {
    return true
  }
}
