/** The place of one call among those of its grant. */
export type Room = { take(bytes: number): boolean; leave(): void }

/** Undefined: the grant has too many calls at once. */
export type Rooms = { enter(grantId: string): Room | undefined }

/** One sandbox must not use up the memory of the gateway, whatever it sends. */
export function openRooms(limits: { callsAtOnce: number; requestBytesAtOnce: number }): Rooms {
  const used = new Map<string, { calls: number; bytes: number }>()
  return {
    enter(grantId) {
      const all = used.get(grantId) ?? { calls: 0, bytes: 0 }
      if (all.calls >= limits.callsAtOnce) return undefined
      all.calls += 1
      used.set(grantId, all)
      let mine = 0
      return {
        take(bytes) {
          if (all.bytes + bytes > limits.requestBytesAtOnce) return false
          all.bytes += bytes
          mine += bytes
          return true
        },
        leave() {
          all.calls -= 1
          all.bytes -= mine
          if (all.calls === 0) used.delete(grantId)
        },
      }
    },
  }
}
