import { secondsOf } from '../../platform/git/dates.ts'
import { streamGit } from '../../platform/git/git.ts'
import { NUL, pieces, textOf } from '../../platform/git/pieces.ts'
import type { GitPlace } from '../../platform/git/settings.ts'

const FIELDS = ['%H', '%P', '%an', '%ae', '%at', '%ct', '%s', '%b']
const FORMAT = `--format=${FIELDS.join('%x00')}`
/** Longer fields, such as huge messages, are truncated. */
const FIELD_BYTES_MAX = 64 * 1024
const PLAIN_OUTPUT = ['--no-color', '--no-decorate', '--no-notes', '--no-show-signature', '--no-mailmap', '--no-patch']

/** Lists the first-parent history of `revisions`, newest first, or in another order. */
export async function* listCommits(
  place: GitPlace,
  revisions: readonly string[],
  { signal, order = ['--first-parent'] }: { signal: AbortSignal; order?: readonly string[] },
): AsyncGenerator<Commit, void, undefined> {
  const args = ['log', '-z', ...PLAIN_OUTPUT, ...order, FORMAT, '--stdin']
  const stream = streamGit(place, args, { signal, input: revisions.map((revision) => `${revision}\n`) })
  let fields: string[] = []
  for await (const field of pieces(stream, NUL, FIELD_BYTES_MAX)) {
    fields.push(field)
    if (fields.length < FIELDS.length) continue
    yield toCommit(fields)
    fields = []
  }
}

function toCommit([
  id = '',
  parents = '',
  name = '',
  email = '',
  authored,
  committed,
  subject = '',
  body = '',
]: string[]): Commit {
  return {
    id,
    parents: parents === '' ? [] : parents.split(' '),
    authorName: textOf(name),
    authorEmail: textOf(email),
    authoredAt: Number(authored),
    committedAt: secondsOf(committed),
    subject: textOf(subject).trim(),
    body: textOf(body),
  }
}

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
