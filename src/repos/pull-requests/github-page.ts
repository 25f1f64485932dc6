import { z } from 'zod'
import type { IssueText, PullRequest } from './pull-request.ts'

/** Queries a page of pull requests, instead of five requests each. Diffs always come from git. */
export const QUERY = `query($owner: String!, $name: String!, $first: Int!, $after: String) {
  rateLimit { cost remaining resetAt }
  repository(owner: $owner, name: $name) {
    defaultBranchRef { name }
    pullRequests(states: MERGED, first: $first, after: $after, orderBy: {field: CREATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title body createdAt lastEditedAt mergedAt baseRefName headRefName
        author { login __typename }
        mergeCommit { oid messageHeadline parents(first: 2) { nodes { oid } } }
        commits(last: 1) { totalCount nodes { commit { messageHeadline } } }
        repository { id }
        closingIssuesReferences(first: 3) { totalCount nodes { title body lastEditedAt repository { id } } }
      }
    }
  }
}`

const Repository = z.object({ id: z.string() }).nullish()
const time = z.iso.datetime({ offset: true })
const Issue = z.object({
  title: z.string(),
  body: z.string().nullable(),
  lastEditedAt: time.nullish(),
  repository: Repository,
})

const Node = z.object({
  number: z.number().int().positive(),
  title: z.string(),
  body: z.string().nullable(),
  createdAt: time,
  lastEditedAt: time.nullish(),
  mergedAt: time,
  baseRefName: z.string(),
  headRefName: z.string().nullish(),
  author: z.object({ login: z.string(), __typename: z.string() }).nullable(),
  mergeCommit: z
    .object({
      oid: z.string().regex(/^[0-9a-f]{40,64}$/),
      messageHeadline: z.string(),
      parents: z.object({ nodes: z.array(z.object({ oid: z.string().regex(/^[0-9a-f]{40,64}$/) })) }),
    })
    .nullable(),
  commits: z.object({
    totalCount: z.number().int().nonnegative(),
    nodes: z.array(z.object({ commit: z.object({ messageHeadline: z.string() }) })),
  }),
  repository: Repository,
  closingIssuesReferences: z
    .object({ totalCount: z.number().int().nonnegative(), nodes: z.array(Issue.nullable()).nullish() })
    .nullish(),
})
type Node = z.infer<typeof Node>

export const GithubPage = z.object({
  data: z
    .object({
      rateLimit: z.object({ cost: z.number(), remaining: z.number(), resetAt: z.string() }).nullish(),
      repository: z
        .object({
          defaultBranchRef: z.object({ name: z.string() }).nullable(),
          pullRequests: z.object({
            pageInfo: z.object({ hasNextPage: z.boolean(), endCursor: z.string().nullable() }),
            nodes: z.array(Node),
          }),
        })
        .nullable(),
    })
    .nullish(),
  errors: z.array(z.object({ type: z.string().optional(), message: z.string() })).optional(),
})
export type GithubPage = z.infer<typeof GithubPage>

/** Converts a node. Returns undefined if the merge commit is missing. */
export function toPullRequest(node: Node): Omit<PullRequest, 'isReverted'> | undefined {
  const { mergeCommit, author } = node
  if (!mergeCommit) return undefined
  return {
    number: node.number,
    title: node.title,
    body: readBody(node, node.mergedAt),
    mark: 'code-host',
    author: author?.login ?? 'ghost',
    isBot: author === null ? undefined : author.__typename === 'Bot',
    branch: node.headRefName ?? undefined,
    into: node.baseRefName,
    mergedAt: new Date(node.mergedAt),
    head: mergeCommit.oid,
    base: baseOf(node, mergeCommit),
    issues: node.closingIssuesReferences?.totalCount,
    issueTexts: listIssueTexts(node),
  }
}

type EditableText = { body: string | null; lastEditedAt?: string | null | undefined }

/**
 * Returns the body unless it was edited after `until`: an edit may reveal the solution, and the original is unknown.
 */
const readBody = ({ body, lastEditedAt }: EditableText, until: string): string =>
  lastEditedAt && Date.parse(lastEditedAt) > Date.parse(until) ? '' : (body ?? '')

/** Returns issue texts from before the pull request. Issues of other repositories are omitted: they may be private. */
function listIssueTexts({ repository, closingIssuesReferences, createdAt }: Node): IssueText[] {
  const all = closingIssuesReferences?.nodes ?? []
  const own = all.filter((issue) => issue !== null).filter((issue) => issue.repository?.id === repository?.id)
  return repository ? own.map((issue) => ({ title: issue.title, body: readBody(issue, createdAt) })) : []
}

/** Returns the commit before the pull request. A rebase lands every commit, and the last one keeps its subject. */
function baseOf(
  { commits, number }: Node,
  { oid, messageHeadline, parents }: NonNullable<Node['mergeCommit']>,
): string {
  const isRebase =
    parents.nodes.length === 1 &&
    commits.nodes[0]?.commit.messageHeadline === messageHeadline &&
    !messageHeadline.endsWith(`(#${number})`)
  if (isRebase && commits.totalCount > 1) return `${oid}~${commits.totalCount}`
  return parents.nodes[0]?.oid ?? `${oid}~1`
}
