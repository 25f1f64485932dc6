import { Problem, preconditionFailed, preconditionRequired } from '../problem.ts'

/** Requires that the client has read the current version: 428 without If-Match, 412 for another ETag. `*` matches any. */
export function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined) throw new Problem(preconditionRequired, `Send If-Match: ${etag} to change this version.`)
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  if (!tags.includes('*') && !tags.includes(etag)) throw new Problem(preconditionFailed, `The current ETag is ${etag}.`)
}
