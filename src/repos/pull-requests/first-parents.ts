import { secondsOf } from '../../platform/git/dates.ts'
import { streamGit } from '../../platform/git/git.ts'
import { NUL, pieces, textOf } from '../../platform/git/pieces.ts'
import type { GitPlace } from '../../platform/git/settings.ts'
import type { Commit } from './commit.ts'

const FIELDS = ['%H', '%P', '%an', '%ae', '%at', '%ct', '%s', '%b']
const FORMAT = `--format=${FIELDS.join('%x00')}`
/** Of one field. A message of a gigabyte is a message of this much. */
const FIELD_BYTES_MAX = 64 * 1024
const PLAIN = ['--no-color', '--no-decorate', '--no-notes', '--no-show-signature', '--no-mailmap', '--no-patch']

/** The default branch from its end to its beginning, or other commits that `revisions` name. */
export async function* listCommits(
  place: GitPlace,
  revisions: readonly string[],
  { signal, order = ['--first-parent'] }: { signal: AbortSignal; order?: readonly string[] },
): AsyncGenerator<Commit, void, undefined> {
  const args = ['log', '-z', ...PLAIN, ...order, FORMAT, '--stdin']
  const stream = streamGit(place, args, { signal, input: revisions.map((revision) => `${revision}\n`) })
  let fields: string[] = []
  for await (const field of pieces(stream, NUL, FIELD_BYTES_MAX)) {
    fields.push(field)
    if (fields.length < FIELDS.length) continue
    yield commitOf(fields)
    fields = []
  }
}

function commitOf([
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
