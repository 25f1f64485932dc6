import { text as readText } from 'node:stream/consumers'
import type { CredentialProvider } from '../src/credentials/schema.ts'
import { Canceled, WrongUse } from './failure.ts'
import { note, type Shell } from './shell.ts'

type Secret = Record<string, string>
type Field = CredentialProvider['fields'][number]

/**
 * The fields of a secret: from variables that are named, by questions on a terminal, or as JSON from standard input.
 * Never from flags, which every user of the machine can read in the list of processes.
 */
export async function readSecret(shell: Shell, fields: readonly Field[], fromEnv: readonly string[]): Promise<Secret> {
  const named = fromVariables(shell, fields, fromEnv)
  if (shell.input().isTTY && shell.errors.isTTY) return { ...named, ...(await ask(shell, fields, named)) }
  return fromEnv.length > 0 ? named : readObject(shell)
}

/** Each is `field=VARIABLE`. */
function fromVariables(shell: Shell, fields: readonly Field[], pairs: readonly string[]): Secret {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, field, variable] = /^([^=]+)=([A-Za-z_]\w*)$/.exec(pair) ?? []
      if (!field || !variable) throw new WrongUse('--from-env takes field=VARIABLE, the name of a variable.')
      if (!fields.some(({ name }) => name === field)) throw new WrongUse(`There is no field ${field}. ${names(fields)}`)
      const value = shell.env[variable]
      if (!value) throw new WrongUse(`The variable ${variable}, named by --from-env, is not set.`)
      return [field, value]
    }),
  )
}

const names = (fields: readonly Field[]): string => `There are: ${fields.map(({ name }) => name).join(', ')}.`

/** What is required. The rest is rarely needed and often has many lines, which a question cannot take. */
async function ask(shell: Shell, fields: readonly Field[], known: Secret): Promise<Secret> {
  const unknown = fields.filter(({ name }) => !(name in known))
  const optional = unknown.filter(({ required }) => !required).map(({ name }) => name)
  const secret: Secret = {}
  for (const field of unknown.filter(({ required }) => required)) secret[field.name] = await askField(shell, field)
  if (optional.length > 0) note(shell, `Left out: ${optional.join(', ')}. Give them with --from-env, or all as JSON.`)
  return secret
}

async function askField(shell: Shell, { name, secret }: Field): Promise<string> {
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

const HOW = 'Standard input takes the fields as a JSON object of texts, for example {"apiKey": "…"}.'

/** What was read is never repeated: not even the parser's own message, which quotes it. */
async function readObject(shell: Shell): Promise<Secret> {
  if (shell.input().isTTY) throw new WrongUse(`Questions need a terminal for standard error too. ${HOW}`)
  const fields = entriesOf(await readText(shell.input()))
  if (!fields) throw new WrongUse(HOW)
  return Object.fromEntries(fields)
}

function entriesOf(json: string): [string, string][] | undefined {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const fields = Object.entries(value).filter((field): field is [string, string] => typeof field[1] === 'string')
    return fields.length === Object.keys(value).length ? fields : undefined
  } catch {
    return undefined
  }
}
