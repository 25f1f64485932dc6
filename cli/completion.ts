import { Argument, type Command } from 'commander'
import { withExample, withGlobals } from './help.ts'
import type { Shell } from './shell.ts'

const SCRIPTS = { bash: toBashScript, zsh: toZshScript, fish: toFishScript }
type ShellName = keyof typeof SCRIPTS

export const addCompletionCommand = (assay: Command, shell: Shell): Command =>
  withExample(
    withGlobals(assay.command('completion'))
      .description('Print the completion script of a shell')
      .addArgument(new Argument('<shell>', 'Shell that will read the script').choices(Object.keys(SCRIPTS)))
      .action((name: ShellName) => void shell.output.write(SCRIPTS[name](listCompletions(assay)))),
    'assay completion bash > /etc/bash_completion.d/assay',
  )

type CompletionWord = { word: string; description: string }
/** Completions of one command. `path` has the names of the command and its parents; it is empty for the program itself. */
type CompletionEntry = { path: string; commands: CompletionWord[]; options: CompletionWord[] }

function listCompletions(command: Command, path = ''): CompletionEntry[] {
  const help = command.createHelp()
  const commands = help.visibleCommands(command)
  const entry = {
    path,
    commands: commands.map((each) => ({ word: each.name(), description: help.subcommandDescription(each) })),
    options: help.visibleOptions(command).flatMap(({ long, description }) => (long ? { word: long, description } : [])),
  }
  return [entry, ...commands.flatMap((each) => listCompletions(each, `${path} ${each.name()}`.trim()))]
}

const listPaths = (entries: readonly CompletionEntry[]): string[] => entries.flatMap(({ path }) => path || [])

function toBashScript(entries: readonly CompletionEntry[]): string {
  const cases = entries.map(({ path, commands, options }) => {
    const words = [...commands, ...options].map(({ word }) => word).join(' ')
    return `    '${path}') words='${words}' ;;`
  })
  return `# Completion of assay for bash. Source this file, or put it into a folder of bash-completion.
_assay() {
  local path='' words='' next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="\${path:+$path }\${COMP_WORDS[i]}"
    case "$next" in
      ${listPaths(entries)
        .map((path) => `'${path}'`)
        .join(' | ')}) path=$next ;;
    esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _assay assay
`
}

function toZshScript(entries: readonly CompletionEntry[]): string {
  return `#compdef assay
autoload -U +X bashcompinit && bashcompinit
${toBashScript(entries)}`
}

function toFishScript(entries: readonly CompletionEntry[]): string {
  const rules = entries.flatMap(({ path, commands, options }) => {
    const condition = `-n "test (__assay_path) = '${path}'"`
    return [
      ...commands.map(
        ({ word, description }) => `complete -c assay ${condition} -a ${word} -d ${quoteForFish(description)}`,
      ),
      ...options.map(
        ({ word, description }) =>
          `complete -c assay ${condition} -l ${word.slice('--'.length)} -d ${quoteForFish(description)}`,
      ),
    ]
  })
  return `# Completion of assay for fish. Put this file into ~/.config/fish/completions.
function __assay_path
    set -l path ''
    for word in (commandline -opc)[2..]
        set -l next (string trim "$path $word")
        contains -- $next ${listPaths(entries).map(quoteForFish).join(' ')}; and set path $next
    end
    echo "$path"
end
${rules.join('\n')}
`
}

const quoteForFish = (text: string): string => `'${text.replaceAll(/[\\']/g, '\\$&').replaceAll(/\s+/g, ' ')}'`
