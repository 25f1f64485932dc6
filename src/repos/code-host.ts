/** Who asks. A token goes only to the host that its credential names. */
export type HostAccess = { host: string; token: string | undefined }

/** As the host knows it, in the host's own casing. */
export type HostedRepository = { id: number; owner: string; name: string; visibility: 'public' | 'private' }

export type Lookup =
  | { kind: 'found'; repository: HostedRepository }
  /** There is none of that name, or none that this token may see. */
  | { kind: 'unknown' }
  /** The host does not take the token. */
  | { kind: 'refused'; detail: string }

/** Where repositories live. */
export type CodeHost = {
  /** Follows a rename: the answer has the name of today. Throws CodeHostUnavailable. */
  findRepository(place: { owner: string; name: string }, access: HostAccess): Promise<Lookup>
}

/** The host does not answer, or not as it should. The repository may be there. */
export class CodeHostUnavailable extends Error {
  override name = 'CodeHostUnavailable'
  /** How long it asked us to wait. */
  readonly retryAfterSeconds: number | undefined

  constructor(message: string, retryAfterSeconds?: number) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}
