import type { ListedCommands } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import { commandName, leadingText, plainText, type ShellCommand, type ShellWord } from './shell-words.ts'

// Programs that compare or search have the exit status 0 for success, 1 for a difference and 2 or more for a failure, for
// example because a file is missing. A script that looks only for 1 takes a failure for success.

/**
 * Returns true if a script compares the exit status of a comparison with another number than 0, unless it also compares the
 * variable that holds it with 0.
 */
export function acceptsFailure(trust: ScriptTrust, lists: readonly ListedCommands[]): boolean {
  const all = lists.flatMap(({ list }) => list)
  return lists.some(({ list }) =>
    list.some((command, at) => {
      if (!isComparison(trust, command)) return false
      const rest = list.slice(at + 1).filter(({ groupLength }) => groupLength === undefined)
      const variable = findStatusVariable(rest[0])
      if (variable === undefined) return listStatusTests(rest.slice(0, 1), rest, '?').includes('other')
      const tests = listStatusTests(all, all, variable)
      return tests.includes('other') && !tests.includes('zero')
    }),
  )
}

const COMPARISON = /^(?:cmp|diff|comm|[ef]?grep)$/

/** Returns true if the exit status of a command is that of a comparison: also in a function, or captured in a variable. */
function isComparison(trust: ScriptTrust, command: ShellCommand): boolean {
  const isNamed = (each: ShellCommand): boolean => COMPARISON.test(commandName(each))
  const captured = command.words.flatMap((word) =>
    word.flatMap((part) => (part.kind === 'substitution' ? part.commands.slice(-1) : [])),
  )
  const body = trust.functions.get(commandName(command)) ?? []
  return [command, ...body, ...(commandName(command) === '' ? captured : [])].some(isNamed)
}

/** Returns the variable to which a command assigns `$?`. */
function findStatusVariable(command: ShellCommand | undefined): string | undefined {
  const [word = []] = command?.kind === 'simple' ? command.words : []
  const [, name] = /^(\w+)=$/.exec(leadingText(word)) ?? []
  return holdsVariable(word.slice(1), '?') ? name : undefined
}

function holdsVariable(word: ShellWord, name: string): boolean {
  const [part, ...others] = word.filter((each) => each.kind !== 'text' || each.text !== '')
  return others.length === 0 && part?.kind === 'variable' && part.name === name && part.operator === ''
}

/** `zero`: the test distinguishes success from failure. `other`: it distinguishes certain failures from the rest. */
type StatusTest = 'zero' | 'other'

/** Lists how commands test a variable. `list`: the commands that may contain the clauses of a `case`. */
function listStatusTests(commands: readonly ShellCommand[], list: readonly ShellCommand[], name: string): StatusTest[] {
  return commands.flatMap((command) => {
    if (command.kind === 'arithmetic') return readArithmetic(command.text, name)
    if (command.kind === 'words') return readClauses(command, list, name)
    const isTest = command.kind === 'test' || /^(?:\[|test)$/.test(commandName(command))
    return isTest ? readConditions(command.words, name) : []
  })
}

const readConditions = (words: readonly ShellWord[], name: string): StatusTest[] =>
  words.flatMap((word, at) => {
    const [left = [], right = []] = [words[at - 1], words[at + 1]]
    const isLeft = holdsVariable(left, name)
    const number = isLeft || holdsVariable(right, name) ? plainText(isLeft ? right : left) : undefined
    return number === undefined ? [] : toStatusTest(plainText(word) ?? '', number)
  })

function toStatusTest(operator: string, number: string): StatusTest[] {
  if (!/^(?:==?|!=|[<>]=?|-(?:eq|ne|lt|le|gt|ge))$/.test(operator) || !/^\d+$/.test(number)) return []
  const isZero = Number(number) === 0 || (/^(?:-ge|>=|-lt|<)$/.test(operator) && Number(number) === 1)
  return [isZero ? 'zero' : 'other']
}

function readArithmetic(text: string, name: string): StatusTest[] {
  const variable = `\\$?\\{?${name === '?' ? '\\?' : name}\\}?`
  return [...text.matchAll(new RegExp(`(?<!\\w)${variable} ?([=!<>]=|[<>]) ?(\\d+)`, 'g'))].flatMap(
    ([, operator = '', number = '']) => toStatusTest(operator, number),
  )
}

/** Reads the clauses of a `case` that tests the variable. */
function readClauses(head: ShellCommand, list: readonly ShellCommand[], name: string): StatusTest[] {
  if (!head.words.some((word) => holdsVariable(word, name))) return []
  const patterns = list
    .slice(list.indexOf(head) + 1)
    .filter(({ kind }) => kind === 'pattern')
    .flatMap(({ words }) => words.map((word) => plainText(word) ?? ''))
  if (patterns.includes('0')) return ['zero']
  return patterns.some((pattern) => /^[\d|]+$/.test(pattern)) ? ['other'] : []
}
