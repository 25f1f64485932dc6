export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The member as what it should be, or nothing of that kind. */
export const objectAt = (from: JsonObject, key: string): JsonObject => {
  const value = from[key]
  return isObject(value) ? value : {}
}

export const objectsAt = (from: JsonObject, key: string): JsonObject[] => {
  const value = from[key]
  return Array.isArray(value) ? value.filter(isObject) : []
}

export const textAt = (from: JsonObject, key: string): string => {
  const value = from[key]
  return typeof value === 'string' ? value : ''
}
