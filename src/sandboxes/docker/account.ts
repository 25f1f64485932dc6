import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { ACCOUNT_FILE_MAX_BYTES, type AccountFiles, resolveAccount, type SandboxIdentity } from '../kernel/accounts.ts'
import type { Image } from '../sandbox.ts'
import { type Docker, ignoring } from './client.ts'
import { withDraft } from './draft.ts'
import type { DockerEngine } from './engine.ts'

/**
 * Resolves a user by the account files of the image, which no agent has written to. The first process of a container is
 * root's, so that other users cannot trace it, and becomes this user only for the command.
 */
export async function findIdentity(
  engine: DockerEngine,
  image: Image,
  user: string | number,
): Promise<SandboxIdentity> {
  if (engine.launcher === undefined || /^(root|0)?(:(root|0)?)?$/.test(String(user))) return undefined
  return resolveAccount(await imageAccounts(engine, image.digest), user)
}

/** Returns the account files of an image, read once. */
export function imageAccounts(engine: DockerEngine, image: string): Promise<AccountFiles> {
  const known = engine.accounts.get(image)
  if (known) return known
  const files = withDraft(engine, { image, command: null }, (id) => readAccounts(engine.docker, id))
  engine.accounts.set(image, files)
  files.catch(() => engine.accounts.delete(image))
  return files
}

/** Reads the account files of a container that has not started. */
const readAccounts = async (docker: Docker, id: string): Promise<AccountFiles> => ({
  passwd: await readFile(docker, id, '/etc/passwd'),
  group: await readFile(docker, id, '/etc/group'),
})

/** Returns the content of a regular file of a container. */
async function readFile(docker: Docker, id: string, path: string): Promise<string | undefined> {
  const answer = await docker.open('GET', `/containers/${id}/archive`, { query: { path } }).catch(ignoring(404))
  if (answer === undefined) return undefined
  let found: string | undefined
  for await (const entry of readTarEntries(answer)) found ??= await textOf(entry)
  return found
}

async function textOf({ type, bytes, content }: TarEntry): Promise<string | undefined> {
  const isReadable = (type === 'File' || type === 'OldFile') && bytes <= ACCOUNT_FILE_MAX_BYTES
  const chunks: Buffer[] = []
  for await (const chunk of content()) if (isReadable) chunks.push(chunk)
  return isReadable ? Buffer.concat(chunks).toString() : undefined
}
