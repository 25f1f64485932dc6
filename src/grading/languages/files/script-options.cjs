// Prints the command that starts a test program, as quoted words for a shell. It has those options of the project's test
// script that decide which tests exist and how they are loaded. Arguments: the program, its file, and whether paths are
// kept too.
const { readFileSync } = require('node:fs')

/** Options that are kept, with a value and without one, and options with a value that are dropped with it. */
const OPTIONS = {
  mocha: {
    values: ['-r', '--require', '--import', '--loader', '-u', '--ui', '-t', '--timeout', '--config', '--file'].concat([
      '--extension',
      '--ext',
      '--ignore',
      '--exclude',
      '--globals',
    ]),
    flags: ['--recursive', '--exit', '--check-leaks', '--async-only', '-A', '--sort', '-S'],
    dropped: [
      '-R',
      '--reporter',
      '-O',
      '--reporter-option',
      '--reporter-options',
      '-g',
      '--grep',
      '-f',
      '--fgrep',
    ].concat(['-j', '--jobs', '--retries', '-s', '--slow', '--package', '--opts', '--watch-files', '--watch-ignore']),
    hasPaths: true,
  },
  jest: { values: ['-c', '--config'], flags: [], dropped: [], hasPaths: false },
  vitest: { values: ['-c', '--config'], flags: [], dropped: [], hasPaths: false },
}
/** Scripts that are searched first. */
const SCRIPTS = ['test', 'test:unit', 'test-unit', 'unit', 'test:node', 'test:js', 'test:all']
const ENV = /^(?:NODE_ENV|BABEL_ENV|TS_NODE_[A-Z_]+)=/
const NODE_OPTIONS = 'NODE_OPTIONS='

const [program, file, paths] = process.argv.slice(2)
const { env, words } = selectWords(findCommand())
console.log(['env', ...env, 'node', file, ...words].map(quote).join(' '))

/** Returns the words of the first command that starts the program, of the script `test` or of one like it. */
function findCommand() {
  const { scripts = {} } = JSON.parse(readFileSync('package.json', 'utf8'))
  const names = [...SCRIPTS, ...Object.keys(scripts).filter((name) => name.startsWith('test'))]
  const commands = names.flatMap((name) => listCommands(String(scripts[name] ?? '')))
  return commands.find((command) => command.some(isProgram)) ?? [program]
}

function listCommands(script) {
  const commands = [[]]
  for (const [text] of script.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"';&|<>])+|[;&|<>]+/g)) {
    if (/^[;&|<>]/.test(text)) commands.push([])
    else commands.at(-1).push(text.replaceAll(/"([^"]*)"|'([^']*)'/g, '$1$2'))
  }
  return commands
}

function isProgram(word) {
  return new RegExp(`^(?:\\S*/)?_?${program}(?:\\.[cm]?js)?$`).test(word)
}

function selectWords(command) {
  const start = command.findIndex(isProgram)
  // A variable of the shell has no value here.
  const rest = command.slice(start + 1).filter((word) => !word.includes('$'))
  const words = []
  while (rest.length > 0) words.push(...takeOption(rest))
  return { env: listEnv(command.slice(0, start)), words }
}

/** Removes the next option with its value, and returns those of its words that are kept. */
function takeOption(rest) {
  const { values, flags, dropped, hasPaths } = OPTIONS[program]
  const word = rest.shift()
  const [name] = word.split('=')
  const hasSeparateValue = word === name && (values.includes(name) || dropped.includes(name))
  const option = [word, ...(hasSeparateValue ? rest.splice(0, 1) : [])]
  const isPath = hasPaths && paths === 'paths' && !word.startsWith('-')
  return values.includes(name) || flags.includes(word) || isPath ? option : []
}

/** Returns variables before the program. Options of a `node` that starts it become one of them. */
function listEnv(before) {
  const at = before.lastIndexOf('node')
  const named = before.find((word) => word.startsWith(NODE_OPTIONS))?.slice(NODE_OPTIONS.length) ?? ''
  const given = at === -1 ? [] : before.slice(at + 1).filter((word) => word.startsWith('--'))
  const options = [named, ...given].join(' ').trim()
  const nodeOptions = options === '' || options.includes('$') ? [] : [`${NODE_OPTIONS}${options}`]
  return [...before.filter((word) => ENV.test(word) && !word.includes('$')), ...nodeOptions]
}

function quote(word) {
  return `'${word.replaceAll("'", `'\\''`)}'`
}
