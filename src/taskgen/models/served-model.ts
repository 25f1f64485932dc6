/** Suffixes that providers add to a model name: a date, or `latest`. Any other suffix denotes another model. */
const PROVIDER_SUFFIX = /^[-@:](?:latest|preview|\d{3,8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2})(?:-(?:preview|\d{2,8}))*$/
const LATEST_SUFFIX = /[-@:](?:latest|preview)$/

/** True if a served model name denotes the requested model. */
export function isServedAs(requestedName: string, servedName: string): boolean {
  const [requested, served] = [removeVendor(requestedName), removeVendor(servedName)]
  if (served === requested) return true
  const base = requested.replace(LATEST_SUFFIX, '')
  return served === base || (served.startsWith(base) && PROVIDER_SUFFIX.test(served.slice(base.length)))
}

/** Returns the name without the vendor prefix that routers add. */
const removeVendor = (name: string): string => name.toLowerCase().slice(name.lastIndexOf('/') + 1)

export type NamedModel = { provider: string; name: string }

/** Returns true for models of the same vendor or family, which tend to make and overlook the same mistakes. */
export const isSameFamily = (one: NamedModel, other: NamedModel): boolean =>
  vendorOf(one) === vendorOf(other) || firstWord(one.name) === firstWord(other.name)

const vendorOf = ({ provider, name }: NamedModel): string =>
  name.includes('/') ? (name.split('/').at(-2) ?? '').toLowerCase() : provider.toLowerCase()

const firstWord = (name: string): string => removeVendor(name).split(/[^a-z]/)[0] || removeVendor(name)
