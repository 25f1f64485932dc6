import { type ZodType, z } from 'zod'
import type { Json, JsonObject } from '../../harnesses/json.ts'

/** Providers that see to a schema know little of it, and refuse the rest. We check all of it ourselves. */
const KNOWN = ['type', 'properties', 'required', 'additionalProperties', 'items', 'enum', 'anyOf', 'description']

/** A schema in the words that every provider knows. */
export function shapeOf(name: string, schema: ZodType): { name: string; schema: JsonObject } {
  const plain: JsonObject = JSON.parse(JSON.stringify(z.toJSONSchema(schema)))
  return { name, schema: trimmed(plain) }
}

function trimmed(schema: JsonObject): JsonObject {
  const kept = Object.entries(schema).filter(([key]) => KNOWN.includes(key))
  return Object.fromEntries(kept.map(([key, value]) => [key, key === 'properties' ? eachOf(value) : below(value)]))
}

const eachOf = (value: Json): Json =>
  isPlain(value) ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, below(each)])) : value

function below(value: Json): Json {
  if (Array.isArray(value)) return value.map(below)
  return isPlain(value) ? trimmed(value) : value
}

const isPlain = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
