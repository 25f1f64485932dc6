import { parseSeconds } from '../../platform/git/dates.ts'
import { streamGit } from '../../platform/git/git.ts'
import { decodeUtf8, NUL, splitStream } from '../../platform/git/pieces.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import type { Commit } from './commit.ts'

const FIELDS = ['%H', '%P', '%an', '%ae', '%at', '%ct', '%s', '%b']
const FORMAT = `--format=${FIELDS.join('%x00')}`
/** Longer fields, such as huge messages, are truncated. */
const FIELD_BYTES_MAX = 64 * 1024
const PLAIN_OUTPUT = ['--no-color', '--no-decorate', '--no-notes', '--no-show-signature', '--no-mailmap', '--no-patch']

/** Lists the first-parent history of `revisions`, newest first, or in another order. */
export async function* listCommits(
  place: GitLocation,
  revisions: readonly string[],
  { signal, order = ['--first-parent'] }: { signal: AbortSignal; order?: readonly string[] },
): AsyncGenerator<Commit, void, undefined> {
  const args = ['log', '-z', ...PLAIN_OUTPUT, ...order, FORMAT, '--stdin']
  const stream = streamGit(place, args, { signal, input: revisions.map((revision) => `${revision}\n`) })
  let fields: string[] = []
  for await (const field of splitStream(stream, NUL, FIELD_BYTES_MAX)) {
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
    authorName: decodeUtf8(name),
    authorEmail: decodeUtf8(email),
    authoredAt: Number(authored),
    committedAt: parseSeconds(committed),
    subject: decodeUtf8(subject).trim(),
    body: decodeUtf8(body),
  }
}
