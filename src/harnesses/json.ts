import { parseUntrustedJson } from '../platform/untrusted-json.ts'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the member if it is an object, otherwise an empty object. */
export const objectAt = (from: JsonObject, key: string): JsonObject => {
  const value = from[key]
  return isObject(value) ? value : {}
}

/** Returns the objects of the member if it is a list, otherwise an empty list. */
export const objectsAt = (from: JsonObject, key: string): JsonObject[] => {
  const value = from[key]
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** Returns the member if it is a text, otherwise an empty text. */
export const textAt = (from: JsonObject, key: string): string => {
  const value = from[key]
  return typeof value === 'string' ? value : ''
}

/** Parses JSON of an untrusted party. Undefined for text that is not JSON, or that is nested too deeply. */
export const parseJson = (text: string): Json | undefined =>
  // The callers limit the length of the text.
  parseUntrustedJson(text, { valuesMax: Number.POSITIVE_INFINITY }) as Json | undefined

/** Parses the arguments of a tool call, which some programs report as a JSON string. */
export function parseArguments(value: Json | undefined): JsonObject {
  const parsed = typeof value === 'string' ? parseJson(value) : value
  return isObject(parsed) ? parsed : {}
}
