import { readFileSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseEnv } from 'node:util'
import { WrongUse } from './failure.ts'
import type { Shell } from './shell.ts'

/** Settings by name. */
type Variables = Record<string, string | undefined>

/** Returns the path of the user's settings, never in the working directory, which may be an untrusted clone. */
export function resolveConfigPath({ env }: Pick<Shell, 'env'>): string {
  if (env.ASSAY_CONFIG) return env.ASSAY_CONFIG
  return join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), '.config'), 'assay', 'config.env')
}

/** Reads the settings of the file. A file that does not exist has none. */
export function readConfigFile(shell: Pick<Shell, 'env'>): Variables {
  const path = resolveConfigPath(shell)
  try {
    return parseEnv(readFileSync(path, 'utf8'))
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return {}
    throw new WrongUse(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Returns a shell whose environment has the settings of the file. Variables of the environment take precedence. */
export function withConfigFile(shell: Shell): Shell {
  const setVariables = Object.entries(shell.env).filter(([, value]) => value !== undefined && value !== '')
  return { ...shell, env: { ...readConfigFile(shell), ...Object.fromEntries(setVariables) } }
}

const FILE_HEADER = '# Settings of Assay, one per line. `assay config set` and `unset` change them.'

/** Replaces the file as a whole. Only its owner can read it, because it may contain keys. */
export async function writeConfigFile(shell: Pick<Shell, 'env'>, settings: Variables): Promise<void> {
  const path = resolveConfigPath(shell)
  const lines = Object.entries(settings).map(([name, value = '']) => `${name}=${quote(value)}`)
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporaryPath = `${path}.${process.pid}`
  await writeFile(temporaryPath, `${[FILE_HEADER, ...lines].join('\n')}\n`, { mode: 0o600 })
  await rename(temporaryPath, path)
}

/** Quotes a value for a file of variables, in which quotation marks cannot be escaped. */
function quote(value: string): string {
  const needsNoQuotes = /^[\w./:@,=+%?&*-]*$/.test(value)
  if (needsNoQuotes) return value
  const quotationMark = [`'`, '"', '`'].find((candidate) => !value.includes(candidate))
  if (quotationMark === undefined || /[\r\n]/.test(value))
    throw new WrongUse('The file cannot store a value with line breaks or with all of the quotation marks \' " `.')
  return `${quotationMark}${value}${quotationMark}`
}
