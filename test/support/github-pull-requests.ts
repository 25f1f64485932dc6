// A fake of GitHub's GraphQL API for merged pull requests, page by page.
import { z } from 'zod'

export type HostedPullRequest = {
  number: number
  title: string
  body?: string
  /** Defaults to a day before the merge. */
  createdAt?: Date
  /** Time of the last edit of the text. */
  lastEditedAt?: Date
  mergedAt: Date
  author?: { login: string; __typename: 'User' | 'Bot' } | null
  into?: string
  /** Null if the commit no longer exists. */
  mergeCommit: { oid: string; messageHeadline: string; parents: string[] } | null
  commits?: number
  /** Subject of the last commit of the branch before the merge. */
  lastHeadline?: string
  /** Issues that the pull request closes. `of` names another repository. */
  issues?: readonly { title: string; body: string | null; lastEditedAt?: Date; of?: string }[]
}

const Request = z.object({
  query: z.string().includes('pullRequests(states: MERGED'),
  variables: z.object({
    owner: z.string(),
    name: z.string(),
    after: z.string().nullable(),
    first: z.number().int().min(1).max(100),
  }),
})

/** Builds the answer to one request, newest first. */
export function pageOf(
  body: string,
  find: (fullName: string) => readonly HostedPullRequest[] | undefined,
): { answer: object; first: number } {
  const { owner, name, after, first } = Request.parse(JSON.parse(body)).variables
  const all = find(`${owner}/${name}`)
  if (!all)
    return {
      first,
      answer: { data: { repository: null }, errors: [{ type: 'NOT_FOUND', message: 'No such repository' }] },
    }
  const from = after === null ? 0 : Number(after)
  const nodes = all.toSorted((a, b) => b.number - a.number).slice(from, from + first)
  const pageInfo = { hasNextPage: from + first < all.length, endCursor: String(from + first) }
  const pullRequests = { pageInfo, nodes: nodes.map(nodeOf) }
  const rateLimit = { cost: 1, remaining: 4000, resetAt: new Date().toISOString() }
  return { first, answer: { data: { rateLimit, repository: { defaultBranchRef: { name: 'main' }, pullRequests } } } }
}

const DAY_MS = 86_400_000

const nodeOf = (each: HostedPullRequest) => ({
  createdAt: (each.createdAt ?? new Date(each.mergedAt.getTime() - DAY_MS)).toISOString(),
  lastEditedAt: each.lastEditedAt?.toISOString() ?? null,
  number: each.number,
  title: each.title,
  body: each.body ?? '',
  mergedAt: each.mergedAt.toISOString(),
  baseRefName: each.into ?? 'main',
  headRefName: 'work',
  author: each.author === undefined ? { login: 'ada', __typename: 'User' } : each.author,
  mergeCommit: each.mergeCommit && {
    ...each.mergeCommit,
    parents: { nodes: each.mergeCommit.parents.map((oid) => ({ oid })) },
  },
  commits: { totalCount: each.commits ?? 1, nodes: [{ commit: { messageHeadline: each.lastHeadline ?? 'work' } }] },
  repository: { id: 'own' },
  closingIssuesReferences: {
    totalCount: each.issues?.length ?? 0,
    nodes: (each.issues ?? []).slice(0, 3).map(({ title, body, lastEditedAt = null, of = 'own' }) => ({
      title,
      body,
      lastEditedAt: lastEditedAt?.toISOString() ?? null,
      repository: { id: of },
    })),
  },
})
