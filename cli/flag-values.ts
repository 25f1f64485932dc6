import { WrongUse } from './failure.ts'

/** Adds a value of a repeatable option to the previous ones, as commander expects it. */
export const collect = (value: string, previous: string[]): string[] => [...previous, value]

export function parseNumber(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new WrongUse(`${flag} must be a number.`)
  return value
}

export const parseOptionalNumber = (text: string | undefined, flag: string): number | undefined =>
  text === undefined ? undefined : parseNumber(text, flag)

/** Parses a positive whole number. */
export function parseCount(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isInteger(value) && value >= 1) return value
  throw new WrongUse(`${flag} must be a whole number from 1 up.`)
}
