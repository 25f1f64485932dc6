/** Suffixes that providers add to a model name: a date, or `latest`. Any other suffix denotes another model. */
const ADDED = /^[-@:](?:latest|preview|\d{3,8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2})(?:-(?:preview|\d{2,8}))*$/
const LATEST = /[-@:](?:latest|preview)$/

/** True if a served model name denotes the requested model. */
export function isServedAs(asked: string, served: string): boolean {
  const [wanted, given] = [plainName(asked), plainName(served)]
  if (given === wanted) return true
  const base = wanted.replace(LATEST, '')
  return given === base || (given.startsWith(base) && ADDED.test(given.slice(base.length)))
}

/** Returns the name without the vendor prefix that routers add. */
const plainName = (name: string): string => name.toLowerCase().slice(name.lastIndexOf('/') + 1)

export type NamedModel = { provider: string; name: string }

/** Returns true for models of the same vendor or family, which tend to make and overlook the same mistakes. */
export const isSameFamily = (one: NamedModel, other: NamedModel): boolean =>
  vendorOf(one) === vendorOf(other) || firstWord(one.name) === firstWord(other.name)

const vendorOf = ({ provider, name }: NamedModel): string =>
  name.includes('/') ? (name.split('/').at(-2) ?? '').toLowerCase() : provider.toLowerCase()

const firstWord = (name: string): string => plainName(name).split(/[^a-z]/)[0] || plainName(name)
