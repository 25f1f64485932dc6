import type { Commit } from './commit.ts'
import type { Mark } from './pull-request.ts'

export type Recognised = { number: number; title: string; body: string; mark: Mark; branch?: string | undefined }

type Rule = (commit: Commit) => Recognised | undefined

/** Whether one commit says of itself that it is a pull request. The first rule that knows it counts. */
export function recognise(commit: Commit): Recognised | undefined {
  for (const rule of RULES) {
    const found = rule(commit)
    if (found) return found
  }
  return undefined
}

const isMerge = ({ parents }: Commit): boolean => parents.length > 1

/** `Merge pull request #12 from fork/branch`; the title is the first line below. */
const mergedOnGithub: Rule = (commit) => {
  const found = /^Merge pull request #(\d{1,9}) from (\S+)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  const branch = found[2]?.replace(/^[^/]+\//, '')
  return { ...below(commit, branch ?? ''), number: Number(found[1]), mark: 'merge', branch }
}

/** `Title (#12)`: one parent is a squash, two are a merge commit that has the title. */
const numberAtTheEnd: Rule = (commit) => {
  const found = /^(.*\S)?\s*\(#(\d{1,9})\)$/.exec(commit.subject)
  if (!found) return undefined
  const mark = isMerge(commit) ? 'merge-title' : 'squash'
  return { number: Number(found[2]), title: found[1] ?? '', body: commit.body, mark }
}

/** bors and merge queues: `Merge #12`, `Auto merge of #12 - name:branch, r=reviewer`. Several at once are none. */
const mergedByQueue: Rule = (commit) => {
  const found = /^(?:Merge|Auto merge of) #(\d{1,9})(?!.*#\d)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  return { ...below(commit, commit.subject), number: Number(found[1]), mark: 'merge' }
}

/** GitLab names the merge request at the end of the message. */
const mergedOnGitlab: Rule = (commit) => {
  const found = /^See merge request \S*!(\d{1,9})$/m.exec(commit.body)
  if (!found) return undefined
  const branch = /^Merge branch '([^']+)'/.exec(commit.subject)?.[1]
  const text = branch === undefined ? { title: commit.subject, body: commit.body } : below(commit, branch)
  return { ...text, number: Number(found[1]), mark: isMerge(commit) ? 'merge' : 'squash', branch }
}

/** Azure: `Merged PR 12: Title`. Bitbucket: `Merged in branch (pull request #12)`. */
const mergedElsewhere: Rule = (commit) => {
  const azure = /^Merged PR (\d{1,9}): (.+)$/.exec(commit.subject)
  const mark = isMerge(commit) ? 'merge' : 'squash'
  if (azure) return { number: Number(azure[1]), title: azure[2] ?? '', body: commit.body, mark }
  const bitbucket = /^Merged in (\S+) \(pull request #(\d{1,9})\)$/.exec(commit.subject)
  if (!bitbucket) return undefined
  return { ...below(commit, bitbucket[1] ?? ''), number: Number(bitbucket[2]), mark, branch: bitbucket[1] }
}

const TRAILER =
  /^(?:PR-URL|Pull-Request|Reviewed-on|Reviewed-at|Merge-Request|Differential Revision):\s*(?:\S*[/#!D])?(\d{1,9})\/?$/im

/** `PR-URL: …/pull/12`, `Reviewed-on: …/+/12`, as mirrors of Gerrit and of patch queues have them. */
const namedInTrailer: Rule = (commit) => {
  const number = TRAILER.exec(commit.body)?.[1]
  return number === undefined
    ? undefined
    : { number: Number(number), title: commit.subject, body: commit.body, mark: 'trailer' }
}

const RULES: Rule[] = [mergedOnGithub, numberAtTheEnd, mergedByQueue, mergedOnGitlab, mergedElsewhere, namedInTrailer]

/** A merge commit has the title in its body. */
function below({ body }: Commit, otherwise: string): { title: string; body: string } {
  const [first = '', ...rest] = body.trimStart().split('\n')
  const title = first.trim()
  return title === '' || title.startsWith('See merge request')
    ? { title: otherwise, body }
    : { title, body: rest.join('\n').trim() }
}
