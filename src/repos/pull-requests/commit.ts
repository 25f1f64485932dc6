/** A commit on the default branch, with all of its message. */
export type Commit = {
  id: string
  parents: readonly string[]
  authorName: string
  authorEmail: string
  authoredAt: number
  committedAt: number
  subject: string
  body: string
}

/** What a rebase keeps of a commit. */
export const traceOf = ({ authorEmail, authoredAt, subject }: Commit): string =>
  `${authorEmail}\n${authoredAt}\n${subject}`
