import { type Command, Help, type Option } from 'commander'

/** Adds examples below the help of a command. */
export const withExample = (command: Command, ...lines: string[]): Command =>
  command.addHelpText(
    'after',
    ['', lines.length > 1 ? 'Examples:' : 'Example:', ...lines.map((line) => `  $ ${line}`)].join('\n'),
  )

type GlobalName = '--url' | '--org' | '--json'

/** Lists in the help of a command only the global options that apply to it. */
export const withGlobals = (command: Command, ...names: GlobalName[]): Command =>
  command.configureHelp({
    showGlobalOptions: names.length > 0,
    optionDescription: describeOption,
    visibleGlobalOptions: (shown) => listGlobalOptions(shown).filter(({ long }) => names.some((name) => name === long)),
  })

/** Describes an option, without the empty list that is the default of repeatable options. */
const describeOption = (option: Option): string =>
  new Help().optionDescription(option).replace(/ ?\(default: \[\]\)$/, '')

const listGlobalOptions = (command: Command): Option[] =>
  Object.assign(new Help(), { showGlobalOptions: true }).visibleGlobalOptions(command)
