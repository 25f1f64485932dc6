// GitHub's GraphQL API, as far as we use it: merged pull requests of a repository, page by page.
import { z } from 'zod'

export type HostedPullRequest = {
  number: number
  title: string
  body?: string
  /** Default: a day before it was merged. */
  createdAt?: Date
  /** Its text, for the last time. */
  lastEditedAt?: Date
  mergedAt: Date
  author?: { login: string; __typename: 'User' | 'Bot' } | null
  into?: string
  /** Null: its commit is gone. */
  mergeCommit: { oid: string; messageHeadline: string; parents: string[] } | null
  commits?: number
  /** The subject of its own last commit, before it landed. */
  lastHeadline?: string
  /** Those it closes. `of`: another repository. */
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

/** What GitHub answers to one request. The newest is told first. */
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
