import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import type { DiffVerdict } from './screen-diff.ts'

/** A pull request with the verdict on it. */
export type ScreenedPullRequest = { pullRequest: PullRequest; verdict: DiffVerdict }
