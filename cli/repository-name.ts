import { WrongUse } from './failure.ts'

/** `owner/name`, as everybody writes it. */
export function repositoryName(text: string): { owner: string; name: string } {
  const [owner = '', name = '', ...rest] = text.split('/')
  if (owner === '' || name === '' || rest.length > 0) throw new WrongUse('Name the repository as owner/name.')
  return { owner, name }
}
