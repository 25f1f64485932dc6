import { MAIN_SERVICE } from '../settings.ts'
import type { CollectHook } from '../task.ts'
import { isReadOnlySedScript } from './sed-and-awk.ts'
import { parseShell } from './shell-parser.ts'
import { listCommandLists } from './shell-program-output.ts'
import { commandName, plainText, type ShellCommand, type ShellWord, toCall } from './shell-words.ts'

// Hooks of `main` run in the agent's environment, with programs and files that it can replace. A hook that copies files
// hands over the agent's work, which the verifier compares. A hook that measures hands over a result, such as an exit
// status, which the agent can forge.

/** Programs that copy or select files, or only prepare that. */
const COPYING = new Set(
  'cp mv cat tar gzip zip mkdir rm rmdir chmod chown touch sync sleep : true cd export trap exit [ test dirname mktemp'.split(
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
      if (COPYING.has(name) || functions.has(name) || (name === 'wc' && isCaptured)) return true
      return SELECTING.get(name)?.(command, isCaptured) === true
    }
    return !lists.every(({ list, isCaptured }) => list.every((command) => isCopying(command, isCaptured)))
  } catch {
    return true
  }
}

/** Subcommands of git that prepare or print contents, or pack them. */
const GIT_CONTENTS = /^(?:add|apply|archive|bundle|checkout|commit|diff|format-patch|init|show|stash)$/
/** Options of git that print a summary, or run a program. */
const GIT_SUMMARY =
  /^(?:-c|-[sS]|--(?:.*stat|summary|name-.*|quiet|exit-code|check|raw|format.*|pretty.*|oneline|ext-diff|textconv|exec.*|config-env.*)(?:=.*)?)$/
/** Programs that `find` may run. */
const FOUND = /^(?:cp|mv|rm|chmod|chown|touch|cat|mkdir)$/

/** Programs that copy or select contents with some arguments, and measure or run others with the rest. */
const SELECTING = new Map<string, (command: ShellCommand, isCaptured: boolean) => boolean>([
  ['git', ({ words }) => isGitCopy(toTexts(words).filter((text, at, all) => text !== '-C' && all[at - 1] !== '-C'))],
  ['find', (command, isCaptured) => isFindCopy(command, isCaptured)],
  ['sed', ({ words }) => isSedCopy(toTexts(words))],
])

/** Returns the arguments of a command. One that is computed is an empty text. */
const toTexts = (words: readonly ShellWord[]): string[] => toCall(words).args.map((word) => plainText(word) ?? '')

const isGitCopy = ([subcommand = '', ...options]: readonly string[]): boolean =>
  GIT_CONTENTS.test(subcommand) && !options.some((option) => GIT_SUMMARY.test(option))

/** A list of names that is stored is a result. One that is captured or piped names the files for another command. */
function isFindCopy({ words, redirects, isPiped }: ShellCommand, isCaptured: boolean): boolean {
  const texts = toTexts(words)
  const programs = texts.filter((_, at) => /^-(?:exec|ok)(?:dir)?$/.test(texts[at - 1] ?? ''))
  if (texts.some((text) => /^-(?:fprint|fls)/.test(text)) || !programs.every((name) => FOUND.test(name))) return false
  return programs.length > 0 || isCaptured || isPiped || !redirects.some(({ operator }) => operator.includes('>'))
}

const isSedCopy = (texts: readonly string[]): boolean =>
  texts
    .filter((text) => !text.startsWith('-'))
    .slice(0, 1)
    .every((script) => isReadOnlySedScript(script)) &&
  !texts.some((text) => /^-\w*[fs]|^--(?:file|expression)|(?:^|[;{}\d$/\s])=\s*(?:[;}]|$)/.test(text))
