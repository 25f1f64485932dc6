/** Host and credential for requests to a code host. The token must only be sent to this host. */
export type HostAccess = { host: string; token: string | undefined }

/** A repository as reported by the code host, in its casing. */
export type HostedRepository = { id: number; owner: string; name: string; visibility: 'public' | 'private' }

export type RepositoryLookup =
  | { kind: 'found'; repository: HostedRepository }
  /** The repository does not exist, or the token has no access to it. */
  | { kind: 'unknown' }
  /** The host rejected the token. */
  | { kind: 'refused'; detail: string }

/** A service that hosts repositories. */
export type CodeHost = {
  /** Looks up a repository. Follows renames: the result has the current name. Throws CodeHostUnavailable. */
  findRepository(repository: { owner: string; name: string }, access: HostAccess): Promise<RepositoryLookup>
}

/** Thrown when a code host cannot be reached or answers unexpectedly. Says nothing about the repository. */
export class CodeHostUnavailable extends Error {
  override name = 'CodeHostUnavailable'
  /** Pause that the host requested. */
  readonly retryAfterSeconds: number | undefined

  constructor(message: string, retryAfterSeconds?: number) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}
