/** Represents one of the concurrent calls that a grant allows, until `release`. */
export type CallSlot = {
  /** Accounts for buffered bytes. Returns false if they would exceed the limit of the grant. */
  takeBytes(bytes: number): boolean
  release(): void
}

export type GrantLimiter = {
  /** Takes a slot for a call. Returns undefined if the grant already has the maximum number of concurrent calls. */
  enter(grantId: string): CallSlot | undefined
}

/** Bounds the concurrent calls and buffered bytes of each grant, so that no sandbox can exhaust the gateway's memory. */
export function createGrantLimiter(limits: { callsAtOnce: number; requestBytesAtOnce: number }): GrantLimiter {
  const used = new Map<string, { calls: number; bytes: number }>()
  return {
    enter(grantId) {
      const grant = used.get(grantId) ?? { calls: 0, bytes: 0 }
      if (grant.calls >= limits.callsAtOnce) return undefined
      grant.calls += 1
      used.set(grantId, grant)
      let callBytes = 0
      return {
        takeBytes(bytes) {
          if (grant.bytes + bytes > limits.requestBytesAtOnce) return false
          grant.bytes += bytes
          callBytes += bytes
          return true
        },
        release() {
          grant.calls -= 1
          grant.bytes -= callBytes
          if (grant.calls === 0) used.delete(grantId)
        },
      }
    },
  }
}
