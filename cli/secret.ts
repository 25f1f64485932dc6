import { text as readText } from 'node:stream/consumers'
import type { CredentialProvider } from '../src/credentials/schema.ts'
import { isInteractive } from './confirm.ts'
import { Canceled, WrongUse } from './failure.ts'
import { note, type Shell } from './shell.ts'

type SecretValues = Record<string, string>
type SecretField = CredentialProvider['fields'][number]

/**
 * Reads the fields of a secret from named variables, from prompts on a terminal, or as JSON from standard input. Secrets are
 * never read from flags, because every user of the machine can see flags in the process list.
 */
export async function readSecret(
  shell: Shell,
  fields: readonly SecretField[],
  fromEnv: readonly string[],
): Promise<SecretValues> {
  const fromVariables = readVariables(shell, fields, fromEnv)
  if (isInteractive(shell)) return { ...fromVariables, ...(await promptFields(shell, fields, fromVariables)) }
  return fromEnv.length > 0 ? fromVariables : readObject(shell)
}

/** Reads the variables that entries of the form `field=VARIABLE` name. */
function readVariables(shell: Shell, fields: readonly SecretField[], pairs: readonly string[]): SecretValues {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, field, variable] = /^([^=]+)=([A-Za-z_]\w*)$/.exec(pair) ?? []
      if (!field || !variable) throw new WrongUse('--from-env must have the form field=VARIABLE.')
      if (!fields.some(({ name }) => name === field))
        throw new WrongUse(`Unknown field ${field}. ${describeFields(fields)}`)
      const value = shell.env[variable]
      if (!value) throw new WrongUse(`The variable ${variable} in --from-env is not set.`)
      return [field, value]
    }),
  )
}

const describeFields = (fields: readonly SecretField[]): string =>
  `There are: ${fields.map(({ name }) => name).join(', ')}.`

/** Prompts for missing required fields. Optional fields often have several lines, which a prompt cannot take. */
async function promptFields(shell: Shell, fields: readonly SecretField[], known: SecretValues): Promise<SecretValues> {
  const missing = fields.filter(({ name }) => !(name in known))
  const optional = missing.filter(({ required }) => !required).map(({ name }) => name)
  const secret: SecretValues = {}
  for (const field of missing.filter(({ required }) => required)) secret[field.name] = await askField(shell, field)
  if (optional.length > 0)
    note(
      shell,
      `Optional fields without a prompt: ${optional.join(', ')}. Set them with --from-env, or pass all fields as JSON.`,
    )
  return secret
}

async function askField(shell: Shell, { name, secret }: SecretField): Promise<string> {
  const { isCancel, password, text } = await import('@clack/prompts')
  const answer = await (secret ? password : text)({
    message: name,
    input: shell.input(),
    output: shell.errors,
    validate: (value) => (value ? undefined : 'is required'),
  })
  if (isCancel(answer)) throw new Canceled()
  return answer
}

const INPUT_HINT = 'Standard input must be a JSON object with texts as fields, for example {"apiKey": "…"}.'

/** Reads fields as JSON from standard input. Errors quote neither the input nor the parser, because the input is secret. */
async function readObject(shell: Shell): Promise<SecretValues> {
  if (shell.input().isTTY) throw new WrongUse(`Prompts need a terminal on standard error too. ${INPUT_HINT}`)
  const fields = parseEntries(await readText(shell.input()))
  if (!fields) throw new WrongUse(INPUT_HINT)
  return Object.fromEntries(fields)
}

function parseEntries(json: string): [string, string][] | undefined {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const fields = Object.entries(value).filter((field): field is [string, string] => typeof field[1] === 'string')
    return fields.length === Object.keys(value).length ? fields : undefined
  } catch {
    return undefined
  }
}
