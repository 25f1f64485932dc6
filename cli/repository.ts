import type { Command } from 'commander'
import { WrongUse } from './failure.ts'
import { openService } from './service.ts'
import type { Shell } from './shell.ts'

export const REPO = ['--repo <repository>', 'owner/name'] as const
export type RepoFlag = { repo: string }

/** `owner/name`, as everybody writes it. */
export function repositoryName(text: string): { owner: string; name: string } {
  const [owner = '', name = '', ...rest] = text.split('/')
  if (owner === '' || name === '' || rest.length > 0) throw new WrongUse('Name the repository as owner/name.')
  return { owner, name }
}

/** The service, and a repository in it. A name that is none is told before anybody is asked. */
export async function openRepository(shell: Shell, command: Command, repo: string) {
  const place = repositoryName(repo)
  const service = await openService(shell, command)
  return { service, params: { org: service.org, ...place } }
}
export type OpenedRepository = Awaited<ReturnType<typeof openRepository>>
