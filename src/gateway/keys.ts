import type { Grant } from './ledger.ts'

type OpenKey = (grant: Grant) => Promise<string | undefined>

const REMEMBERED_MS = 5_000
const KEYS_MAX = 1000

/** A key that is put in anew acts within seconds on what already runs, without a look-up for each call. */
export function rememberedKeys(openKey: OpenKey): OpenKey {
  const known = new Map<string, { key: Promise<string | undefined>; until: number }>()
  return (grant) => {
    const name = `${grant.workspaceId} ${grant.credentialId} ${grant.terms.provider}`
    const found = known.get(name)
    if (found && found.until > performance.now()) return found.key
    if (known.size >= KEYS_MAX) known.clear()
    const key = openKey(grant)
    known.set(name, { key, until: performance.now() + REMEMBERED_MS })
    key.catch(() => known.delete(name)) // a failure is not kept
    return key
  }
}
