import { type Command, CommanderError } from 'commander'
import { ProblemReceived } from '../src/platform/http/client.ts'
import { wordFor } from './flag-words.ts'
import { note, type Shell, styled } from './shell.ts'

/** The command line is wrong. */
export class WrongUse extends Error {
  override name = 'WrongUse'
}

/** The command failed and has already printed why. */
export class Failed extends Error {
  override name = 'Failed'
}

/** The user canceled a prompt or the command. */
export class Canceled extends Error {
  override name = 'Canceled'
}

const FAILED = 1
const WRONG_USE = 2
const INTERRUPTED = 130

export const EXIT_CODES = `Exit codes: 0 done, ${FAILED} failed, ${WRONG_USE} wrong use, ${INTERRUPTED} canceled at a question.`

/** Prints an error and returns the exit code. */
export function report(error: unknown, shell: Shell, command?: Command): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE // it has said what is wrong
  if (error instanceof Canceled) return INTERRUPTED
  if (error instanceof Failed) return FAILED

  const lines = error instanceof ProblemReceived ? problemLines(error, command) : sentence(error).split('\n')
  // Further lines are indented: a message may quote untrusted text, which must not look like our own output.
  const [first = '', ...others] = lines.map((line, at) => (at === 0 || line.startsWith('  ') ? line : `  ${line}`))
  note(shell, `${styled(shell.errors, 'red', 'error:')} ${first}`, ...others)
  if (shell.env.ASSAY_LOG === 'debug' && error instanceof Error && error.stack) note(shell, ...error.stack.split('\n'))
  return error instanceof WrongUse ? WRONG_USE : FAILED
}

const NOT_ASSAY = 'Another program than Assay answered. Does ASSAY_URL or --url name the service?'

function sentence(error: unknown): string {
  if (error instanceof SyntaxError) return NOT_ASSAY // only answers are parsed without a catch
  if (!(error instanceof Error)) return String(error)
  const text = error.message || innerMessage(error) || error.name
  // Errors with their own class have a message for users. A plain error may have the relevant message in its cause.
  const isPlain = error.constructor === Error
  return isPlain && error.cause instanceof Error ? `${text.replace(/\.$/, '')}: ${sentence(error.cause)}` : text
}

/** Node throws one AggregateError with an empty message for all addresses of a host. */
const innerMessage = (error: Error): string | undefined =>
  error instanceof AggregateError ? error.errors.map((each) => sentence(each)).join('; ') : undefined

function problemLines({ problem }: ProblemReceived, command: Command | undefined): string[] {
  const { title, detail, code, requestId, errors = [] } = problem
  const [first, ...others] = errors.map(({ pointer, message }) => `${wordFor(pointer, command)}: ${message}`)
  const source = `(${code}, request ${requestId})`
  // The detail of a problem with field errors repeats the first of them.
  if (first === undefined) return [`${detail} ${source}`]
  if (others.length === 0) return [`${first} ${source}`]
  return [`${title} ${source}`, first, ...others]
}
