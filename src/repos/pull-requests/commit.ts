/** A commit with its message. */
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

/** Returns the properties of a commit that a rebase preserves. */
export const toTrace = ({ authorEmail, authoredAt, subject }: Commit): string =>
  `${authorEmail}\n${authoredAt}\n${subject}`
