import { join } from 'node:path'
import type { UserAccount } from '../kernel/accounts.ts'
import { SandboxUnsupported } from '../sandbox.ts'
import { CONTROL, commandWords } from './launcher.ts'
import type { LocalLauncher } from './machine.ts'
import { line, quote } from './shell.ts'

/** A command for the control shell to start. */
export type ControlRequest = {
  /** The main one is 0; its files are the sandbox's own. */
  number: number
  launcher: LocalLauncher
  account: UserAccount
  workdir: string
  env: Record<string, string>
  command: string[]
  hasInput: boolean
}

const REQUESTS = join(CONTROL, 'requests')
const STATUS = join(CONTROL, 'status')

/** Keeps the sandbox's own files for the main command, because a shell gives nothing to what it starts aside. */
export const OPENING = 'exec 4<&0 5>&1 6>&2 < /dev/null > /dev/null 2>&1\n'

/** Read from a file, because only a short line is sure to arrive in one piece. */
export const requestLine = (number: number): string => `. ${join(CONTROL, String(number))}\n`

export const killLine = (pid: number): string => `kill -9 -${pid} ${pid}\n`

/** Says which process it is, and later its code. The end of the main one is the end of all. */
export function requestScript({ number, launcher, account, workdir, env, command, hasInput }: ControlRequest): string {
  const input = hasInput ? join(CONTROL, `${number}.input`) : '/dev/null'
  const files = number === 0 ? '3<&4 >&5 2>&6' : `3< ${input} > ${join(CONTROL, `${number}.output`)} 2>&1`
  const last = number === 0 ? `echo "exit $?" > ${REQUESTS}` : `echo "${number} exit $?" > ${STATUS}`
  return `{ exec ${files} 4<&- 5>&- 6>&-
( exec <&3 3<&-
${line('cd', '--', workdir)} || exit 126
${Object.entries(env).map(variable).join('')}exec ${line(...commandWords(launcher, account), ...command)}
) & child=$!
exec 3<&- > /dev/null 2>&1
echo "${number} pid $child" > ${STATUS}
wait $child
${last}; } &
`
}

function variable([name, value]: [string, string]): string {
  if (/^[A-Za-z_]\w*$/.test(name)) return `export ${name}=${quote(value)}\n`
  throw new SandboxUnsupported(`The local sandbox has no variable called ${name} where commands are added: use docker.`)
}
