import { Problem, preconditionFailed, preconditionRequired } from '../problem.ts'

/** Whoever changes something has read it as it is now. `*` stands for whatever is there. */
export function requireMatch(ifMatch: string | undefined, etag: string): void {
  if (ifMatch === undefined) throw new Problem(preconditionRequired, `Send If-Match: ${etag} if that is what you mean.`)
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  if (!tags.includes('*') && !tags.includes(etag)) throw new Problem(preconditionFailed, `Its ETag is ${etag} now.`)
}
