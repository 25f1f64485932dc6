import type { Command } from 'commander'
import { WrongUse } from './failure.ts'
import { openService } from './service.ts'
import type { Shell } from './shell.ts'

export const REPO = ['--repo <repository>', 'Repository as owner/name'] as const
export type RepoFlag = { repo: string }

/** Parses `owner/name`. */
export function parseRepositoryName(text: string): { owner: string; name: string } {
  const [owner = '', name = '', ...rest] = text.split('/')
  if (owner === '' || name === '' || rest.length > 0) throw new WrongUse('Give the repository as owner/name.')
  return { owner, name }
}

/** Parses the name of a repository, opens the service, and returns it with the parameters of the repository. */
export async function openRepository(shell: Shell, command: Command, repo: string) {
  const ref = parseRepositoryName(repo)
  const service = await openService(shell, command)
  return { service, params: { org: service.org, ...ref } }
}
export type OpenedRepository = Awaited<ReturnType<typeof openRepository>>
