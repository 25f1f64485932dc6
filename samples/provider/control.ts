import type { ZodType } from 'zod'
import type { JsonObject } from '../../src/harnesses/json.ts'
import type { Books } from './books.ts'
import { Fault, ProviderScript } from './script.ts'

/** Control endpoints for tests and demos. Agent programs never use them. */
export function control(books: Books, method: string | undefined, path: string, body: JsonObject): [number, object] {
  switch (`${method} ${path}`) {
    case 'GET /__control/calls':
      return [200, books.calls()]
    case 'DELETE /__control/calls':
      books.forget()
      return [200, {}]
    case 'POST /__control/faults':
      return checked(Fault, body, books.addFault)
    case 'PUT /__control/script':
      return checked(ProviderScript, body, books.setScript)
    default:
      return [404, { message: 'calls, faults and script are here.' }]
  }
}

function checked<T>(schema: ZodType<T>, body: JsonObject, take: (value: T) => void): [number, object] {
  const { data, error } = schema.safeParse(body)
  if (error) return [400, { message: error.message }]
  take(data)
  return [200, {}]
}
