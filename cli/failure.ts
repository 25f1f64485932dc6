import { type Command, CommanderError } from 'commander'
import { Outage } from '../src/platform/errors.ts'
import { ProblemReceived, ServiceUnreachable } from '../src/platform/http/client.ts'
import { escapeJson } from '../src/platform/terminal-text.ts'
import { note, type Shell, styled } from './shell.ts'

/** The command line is wrong. */
export class WrongUse extends Error {
  override name = 'WrongUse'
}

/** The command failed and has already printed why: an expectation was not met, or a check found a problem. */
export class Failed extends Error {
  override name = 'Failed'
}

/** There is no result, because a sandbox, a model provider or the service failed. A repetition may succeed. */
export class InfrastructureFailed extends Error {
  override name = 'InfrastructureFailed'
  /** The command has already printed why. */
  readonly isReported: boolean

  constructor(message: string, { isReported = false }: { isReported?: boolean } = {}) {
    super(message)
    this.isReported = isReported
  }
}

/** The user canceled a prompt or the command. */
export class Canceled extends Error {
  override name = 'Canceled'
}

const FAILED = 1
const WRONG_USE = 2
const INFRASTRUCTURE = 3
const INTERRUPTED = 130

export const EXIT_CODES = `Exit codes: 0 done, ${FAILED} failed or an expectation was not met, ${WRONG_USE} wrong use, ${INFRASTRUCTURE} the infrastructure failed, ${INTERRUPTED} canceled.`

/** `command` is the command that failed, to name its flags in messages. With `isJson`, errors are printed as JSON. */
type ReportOptions = { command?: Command | undefined; isJson?: boolean }

/** Prints an error and returns the exit code. */
export function report(error: unknown, shell: Shell, { command, isJson = false }: ReportOptions = {}): number {
  const code = toExitCode(error)
  if (isPrinted(error, isJson)) return code
  if (isJson) printErrorJson(shell, error, code)
  else printError(shell, error, command)
  return code
}

function toExitCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE
  if (error instanceof Canceled) return INTERRUPTED
  if (error instanceof WrongUse) return WRONG_USE
  const isUnreachable = error instanceof ServiceUnreachable || error instanceof SyntaxError
  if (error instanceof InfrastructureFailed || error instanceof Outage || isUnreachable) return INFRASTRUCTURE
  return error instanceof ProblemReceived && error.problem.status >= 500 ? INFRASTRUCTURE : FAILED
}

function isPrinted(error: unknown, isJson: boolean): boolean {
  // Commander prints its own errors, except as JSON.
  if (error instanceof CommanderError) return !isJson || error.exitCode === 0
  if (error instanceof InfrastructureFailed) return error.isReported
  return error instanceof Canceled || error instanceof Failed
}

function printError(shell: Shell, error: unknown, command: Command | undefined): void {
  const lines = error instanceof ProblemReceived ? formatProblem(error, command) : toSentence(error).split('\n')
  // Further lines are indented: a message may quote untrusted text, which must not look like our own output.
  const [first = '', ...others] = lines.map((line, index) =>
    index === 0 || line.startsWith('  ') ? line : `  ${line}`,
  )
  note(shell, `${styled(shell.errors, 'red', 'error:')} ${first}`, ...others)
  if (shell.env.ASSAY_LOG === 'debug' && error instanceof Error && error.stack) note(shell, ...error.stack.split('\n'))
}

/** Prints one line of JSON to standard error, so that standard output contains results only. */
function printErrorJson(shell: Shell, error: unknown, exitCode: number): void {
  const message = toSentence(error).replace(/^error: /, '')
  const problem = error instanceof ProblemReceived ? error.problem : undefined
  const code = problem?.code ?? CODE_NAMES[exitCode] ?? 'failed'
  shell.errors.write(`${escapeJson(JSON.stringify({ error: { code, message, exitCode, problem } }))}\n`)
}

/** Codes of errors as JSON, by exit code. */
const CODE_NAMES: Record<number, string> = { [WRONG_USE]: 'wrong_use', [INFRASTRUCTURE]: 'infrastructure' }

const NOT_ASSAY = 'Another program than Assay answered. Does ASSAY_URL or --url name the service?'

function toSentence(error: unknown): string {
  // Only responses of the service are parsed without a catch.
  if (error instanceof SyntaxError) return NOT_ASSAY
  if (!(error instanceof Error)) return String(error)
  const text = error.message || joinInnerMessages(error) || error.name
  // Errors with their own class have a message for users. A plain error may have the relevant message in its cause.
  const isPlain = error.constructor === Error
  return isPlain && error.cause instanceof Error ? `${text.replace(/\.$/, '')}: ${toSentence(error.cause)}` : text
}

/** Joins the messages of an AggregateError, which Node throws without a message for all addresses of a host. */
const joinInnerMessages = (error: Error): string | undefined =>
  error instanceof AggregateError ? error.errors.map((each) => toSentence(each)).join('; ') : undefined

function formatProblem({ problem }: ProblemReceived, command: Command | undefined): string[] {
  const { title, detail, code, requestId, errors = [] } = problem
  const [first, ...others] = errors.map(({ pointer, message }) => `${describeField(pointer, command)}: ${message}`)
  const source = `(${code}, request ${requestId})`
  // The detail of a problem with field errors repeats the first of them.
  if (first === undefined) return [`${detail} ${source}`]
  if (others.length === 0) return [`${first} ${source}`]
  return [`${title} ${source}`, first, ...others]
}

/** Flags of fields that have another name. */
const FLAGS_BY_FIELD: Record<string, string> = {
  budgetUsd: '--budget',
  candidateCounts: '--easy, --medium and --hard',
  credentialId: '--credential',
  defaultReasoningLevel: '--default-level',
  expiresAt: '--expires',
  reasoningLevels: '--levels',
  trialBudgetUsd: '--trial-budget',
  url: '--git',
}

/** Returns the flag or argument for a field of a request, otherwise its JSON Pointer. */
export function describeField(pointer: string, command: Command | undefined): string {
  const steps = pointer.split('/').filter((step) => step !== '' && !/^\d+$/.test(step))
  const names = steps.map((step) => findFlag(step, command) ?? findArgument(step, command))
  const lastNamed = names.findLastIndex((name) => name !== undefined)
  if (lastNamed < 0) return pointer || '/'
  const innerField = steps.slice(lastNamed + 1).join('.')
  return innerField === '' ? `${names[lastNamed]}` : `${names[lastNamed]} (${innerField})`
}

function findFlag(field: string, command: Command | undefined): string | undefined {
  const known = command?.options.map(({ long }) => long ?? '') ?? []
  const kebab = `--${toKebabCase(field)}`
  const namedFlag = FLAGS_BY_FIELD[field] ?? kebab
  // A repeatable flag is the singular of its field: --model for models, --harness for harnesses.
  return [namedFlag, kebab, kebab.replace(/e?s$/, ''), kebab.replace(/s$/, '')].find((flag) =>
    flag.split(/, | and /).every((each) => known.includes(each)),
  )
}

const findArgument = (field: string, command: Command | undefined): string | undefined =>
  command?.registeredArguments.some((argument) => argument.name() === toKebabCase(field))
    ? `<${toKebabCase(field)}>`
    : undefined

const toKebabCase = (field: string): string => field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
