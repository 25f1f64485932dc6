import { type ZodType, z } from 'zod'
import type { Json, JsonObject } from '../../harnesses/json.ts'

/** Providers that see to a schema know little of it, and refuse the rest. We check all of it ourselves. */
const KNOWN = ['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'anyOf', 'description']

/** A schema in the words that every provider knows. */
export function toAnswerShape(name: string, schema: ZodType): { name: string; schema: JsonObject } {
  const plain: JsonObject = JSON.parse(JSON.stringify(z.toJSONSchema(schema)))
  return { name, schema: trimSchema(plain) }
}

function trimSchema(schema: JsonObject): JsonObject {
  const kept = Object.entries(schema).filter(([key]) => KNOWN.includes(key))
  return Object.fromEntries(
    kept.map(([key, value]) => [key, key === 'properties' ? trimProperties(value) : trimValue(value)]),
  )
}

const trimProperties = (value: Json): Json =>
  isPlain(value) ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, trimValue(each)])) : value

function trimValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(trimValue)
  return isPlain(value) ? trimSchema(value) : value
}

const isPlain = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
