import { refuseUrl } from '../platform/outbound/outbound.ts'
import type { FieldError } from '../platform/problem.ts'
import { engineUrl } from './engine.ts'
import type { Secret } from './seal.ts'

export type Field = {
  name: string
  required: boolean
  /** Whether its value must stay hidden; what is not may serve as hint. */
  secret: boolean
  /** What is wrong with a value, if anything. */
  complaint: (value: string) => string | undefined
}

const BYTES_MAX = 64 * 1024

/** A key goes into a header, so it has to be one. */
export const token = (name: string): Field => ({
  name,
  required: true,
  secret: true,
  complaint: (value) => (/^[\x21-\x7e]+$/.test(value) ? undefined : 'must be visible ASCII characters without spaces'),
})

export const pem = (name: string, secret: boolean): Field => ({
  name,
  required: false,
  secret,
  complaint: (value) => (value.startsWith('-----BEGIN ') ? undefined : 'must be PEM text: -----BEGIN …'),
})

export const hostName = (name: string): Field => ({
  name,
  required: false,
  secret: false,
  complaint: (value) => {
    const isName = /^[A-Za-z0-9.-]+(:\d{1,5})?$/.test(value)
    return isName && !refuseUrl(`https://${value.toLowerCase()}`, 'client') ? undefined : 'must be a public host name'
  },
})

export const engineAddress = (name: string): Field => ({
  name,
  required: true,
  secret: false,
  complaint: (value) => {
    const url = engineUrl(value)
    return url && !refuseUrl(url, 'client') ? undefined : 'must be tcp://HOST:PORT of a public host'
  },
})

/** Keys are pasted, and what is around them comes along. */
export const trimmed = (secret: Secret): Secret =>
  Object.fromEntries(Object.entries(secret).map(([name, value]) => [name, value.trim()]))

/** Everything that is wrong with a secret, under `/secret`. */
export function secretErrors(fields: Field[], secret: Secret): FieldError[] {
  if (Buffer.byteLength(JSON.stringify(secret)) > BYTES_MAX) {
    return [{ pointer: '/secret', code: 'too_big', message: 'must hold at most 64 KiB' }]
  }
  const unknown = Object.keys(secret).filter((name) => !fields.some((field) => field.name === name))
  return [
    ...unknown.map((name) => fieldError(name, 'unknown_field', 'Unknown field.')),
    ...fields.flatMap((field) => valueErrors(field, secret[field.name])),
  ]
}

function valueErrors({ name, required, complaint }: Field, value: string | undefined): FieldError[] {
  if (value === undefined) return required ? [fieldError(name, 'required', 'is required')] : []
  const message = value === '' ? 'must not be empty' : complaint(value)
  return message ? [fieldError(name, 'invalid_format', message)] : []
}

const fieldError = (name: string, code: string, message: string): FieldError => ({
  pointer: `/secret/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
  code,
  message,
})

const HINTED_LENGTH_MIN = 12

/** Of the first field: the end of a secret, when enough of it remains hidden, or all of what is no secret. */
export function hintOf([main]: Field[], values: Secret): string {
  const value = (main && values[main.name]) ?? ''
  if (!main?.secret) return value
  return value.length >= HINTED_LENGTH_MIN ? value.slice(-4) : ''
}
