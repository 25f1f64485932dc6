import { type ZodType, z } from 'zod'
import type { Json, JsonObject } from '../../harnesses/json.ts'

/** Keywords of JSON Schema that every provider accepts. Others are removed; the answer is validated in full by us. */
const ACCEPTED_KEYWORDS = [
  'type',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'anyOf',
  'description',
]

/** Converts a schema to the subset of JSON Schema that every provider accepts. */
export function toAnswerShape(name: string, schema: ZodType): { name: string; schema: JsonObject } {
  const full: JsonObject = JSON.parse(JSON.stringify(z.toJSONSchema(schema)))
  return { name, schema: trimSchema(full) }
}

function trimSchema(schema: JsonObject): JsonObject {
  const kept = Object.entries(schema).filter(([key]) => ACCEPTED_KEYWORDS.includes(key))
  return Object.fromEntries(
    kept.map(([key, value]) => [key, key === 'properties' ? trimProperties(value) : trimValue(value)]),
  )
}

const trimProperties = (value: Json): Json =>
  isJsonObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, property]) => [name, trimValue(property)]))
    : value

function trimValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(trimValue)
  return isJsonObject(value) ? trimSchema(value) : value
}

const isJsonObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
