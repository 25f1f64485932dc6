import { Problem } from '../platform/problem.ts'
import { refreshVisibility } from '../repos/repos.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import type { ReleaseTools } from './publish.ts'
import { listPublicRepositories } from './sql.ts'

const REPOSITORIES_MAX = 500

/**
 * Asks the code host about every repository with a public release, and withdraws the releases of those that turned
 * private. Stops when the host is unavailable or limits requests: the next run goes on with the rest.
 */
export async function checkVisibility(tools: ReleaseTools, signal: AbortSignal): Promise<void> {
  for (const repository of await listPublicRepositories(tools.db, REPOSITORIES_MAX)) {
    signal.throwIfAborted()
    try {
      await refreshVisibility(tools, repository)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.kind === codeHostUnavailable) return
      // A refused credential or a renamed repository tells nothing about the visibility.
    }
  }
}
