import type { Commit } from './commit.ts'
import type { Mark } from './pull-request.ts'

export type RecognisedCommit = { number: number; title: string; body: string; mark: Mark; branch?: string | undefined }

type RecogniseRule = (commit: Commit) => RecognisedCommit | undefined

/** Recognises a pull request by the message of one commit. The first matching rule decides. */
export function recognise(commit: Commit): RecognisedCommit | undefined {
  for (const rule of RULES) {
    const found = rule(commit)
    if (found) return found
  }
  return undefined
}

const isMerge = ({ parents }: Commit): boolean => parents.length > 1

/** Matches `Merge pull request #12 from fork/branch`. The title is the first line of the body. */
const mergedOnGithub: RecogniseRule = (commit) => {
  const found = /^Merge pull request #(\d{1,9}) from (\S+)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  const branch = found[2]?.replace(/^[^/]+\//, '')
  return { ...splitBody(commit, branch ?? ''), number: Number(found[1]), mark: 'merge', branch }
}

/** Matches `Title (#12)`, a squash, or with two parents a merge commit. */
const numberAtTheEnd: RecogniseRule = (commit) => {
  const found = /^(.*\S)?\s*\(#(\d{1,9})\)$/.exec(commit.subject)
  if (!found) return undefined
  const mark = isMerge(commit) ? 'merge-title' : 'squash'
  return { number: Number(found[2]), title: found[1] ?? '', body: commit.body, mark }
}

/** Matches bors and merge queues: `Merge #12`, `Auto merge of #12 - name:branch, r=reviewer`. Rollups do not match. */
const mergedByQueue: RecogniseRule = (commit) => {
  const found = /^(?:Merge|Auto merge of) #(\d{1,9})(?!.*#\d)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  return { ...splitBody(commit, commit.subject), number: Number(found[1]), mark: 'merge' }
}

/** Matches GitLab, which names the merge request at the end of the message. */
const mergedOnGitlab: RecogniseRule = (commit) => {
  const found = /^See merge request \S*!(\d{1,9})$/m.exec(commit.body)
  if (!found) return undefined
  const branch = /^Merge branch '([^']+)'/.exec(commit.subject)?.[1]
  const text = branch === undefined ? { title: commit.subject, body: commit.body } : splitBody(commit, branch)
  return { ...text, number: Number(found[1]), mark: isMerge(commit) ? 'merge' : 'squash', branch }
}

/** Matches `Merged PR 12: Title` (Azure) and `Merged in branch (pull request #12)` (Bitbucket). */
const mergedElsewhere: RecogniseRule = (commit) => {
  const azure = /^Merged PR (\d{1,9}): (.+)$/.exec(commit.subject)
  const mark = isMerge(commit) ? 'merge' : 'squash'
  if (azure) return { number: Number(azure[1]), title: azure[2] ?? '', body: commit.body, mark }
  const bitbucket = /^Merged in (\S+) \(pull request #(\d{1,9})\)$/.exec(commit.subject)
  if (!bitbucket) return undefined
  return { ...splitBody(commit, bitbucket[1] ?? ''), number: Number(bitbucket[2]), mark, branch: bitbucket[1] }
}

const TRAILER =
  /^(?:PR-URL|Pull-Request|Reviewed-on|Reviewed-at|Merge-Request|Differential Revision):\s*(?:\S*[/#!D])?(\d{1,9})\/?$/im

/** Matches trailers of Gerrit mirrors and patch queues: `PR-URL: …/pull/12`, `Reviewed-on: …/+/12`. */
const namedInTrailer: RecogniseRule = (commit) => {
  const number = TRAILER.exec(commit.body)?.[1]
  return number === undefined
    ? undefined
    : { number: Number(number), title: commit.subject, body: commit.body, mark: 'trailer' }
}

const RULES: RecogniseRule[] = [
  mergedOnGithub,
  numberAtTheEnd,
  mergedByQueue,
  mergedOnGitlab,
  mergedElsewhere,
  namedInTrailer,
]

/** Returns title and body of a merge commit, whose title is the first line of its body. */
function splitBody({ body }: Commit, otherwise: string): { title: string; body: string } {
  const [first = '', ...rest] = body.trimStart().split('\n')
  const title = first.trim()
  return title === '' || title.startsWith('See merge request')
    ? { title: otherwise, body }
    : { title, body: rest.join('\n').trim() }
}
