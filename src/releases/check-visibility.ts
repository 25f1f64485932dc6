import { Problem } from '../platform/problem.ts'
import { refreshVisibility } from '../repos/repos.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import type { ReleaseDeps } from './publish.ts'
import { listPublicRepositories } from './sql.ts'

const REPOSITORIES_MAX = 500

/**
 * Checks the visibility of every repository with a public release and withdraws the releases of those that became
 * private. Stops if the code host is unavailable or rate-limited; the next run continues with the rest.
 */
export async function checkVisibility(deps: ReleaseDeps, signal: AbortSignal): Promise<void> {
  for (const repository of await listPublicRepositories(deps.db, REPOSITORIES_MAX)) {
    signal.throwIfAborted()
    try {
      await refreshVisibility(deps, repository)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.kind === codeHostUnavailable) return
      // A refused credential or a renamed repository says nothing about the visibility.
    }
  }
}
