import type { Fields } from './fields.ts'
import { readEnv } from './settings.ts'
import type { EnvVar, McpServer, Template } from './task.ts'
import { bracedTemplate, plainText, templateText, variablesOf } from './template.ts'

const TRANSPORTS = ['sse', 'streamable-http', 'http', 'stdio'] as const

export function readMcpServer(fields: Fields): McpServer {
  const name = fields.requiredText('name')
  const transport = fields.oneOf('transport', TRANSPORTS) ?? 'sse'
  if (transport !== 'stdio') {
    ignore(fields, ['command', 'args'], transport)
    const url = fields.requiredText('url')
    return { name, transport: transport === 'http' ? 'streamable-http' : transport, url, headers: readHeaders(fields) }
  }
  ignore(fields, ['url'], transport)
  if (fields.has('headers')) fields.refuse('headers', 'conflict', 'Headers are for servers that are asked over HTTP.')
  return { name, transport, command: fields.requiredText('command'), args: fields.texts('args') ?? [] }
}

function ignore(fields: Fields, keys: string[], transport: string): void {
  for (const key of keys.filter(fields.has)) fields.warn(key, 'ignored_key', `It means nothing with ${transport}.`)
}

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
const CREDENTIAL = /KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH|^(set-)?cookie$/i

/** Since Harbor 0.25. A task is published, so a credential in a header must be a variable. */
const readHeaders = (fields: Fields): EnvVar[] =>
  readEnv(fields, 'headers').map(({ name, value }) => {
    const text = plainText(value)
    const template = text === undefined ? value : bracedTemplate(text)
    const complaint = template === undefined ? `A variable is written as \${NAME}.` : headerComplaint(name, template)
    if (complaint) fields.refuse(`headers.${name}`, 'invalid_value', complaint)
    return { name, value: template ?? [] }
  })

function headerComplaint(name: string, value: Template): string | undefined {
  if (!HEADER.test(name)) return 'This cannot be the name of a header.'
  if (/[\r\n]/.test(templateText(value))) return 'A header is one line.'
  const isSecret = CREDENTIAL.test(name)
  const known = variablesOf(value).some(({ variable, fallback }) => fallback && (isSecret || CREDENTIAL.test(variable)))
  if (known || (isSecret && !isHidden(value))) {
    return `A credential is written as a variable without a fallback, such as "Bearer \${TOKEN}".`
  }
  return undefined
}

/** Nothing but variables, after the name of a scheme; a text has no NUL, so it can stand for a variable. */
const isHidden = (value: Template): boolean =>
  /^\s*$|^\s*(?:[A-Za-z]+\s+)?\0(?:[\s:-]*\0)*\s*$/.test(
    value.map((part) => (typeof part === 'string' ? part : '\0')).join(''),
  )
