import { ACCOUNT_FILE_MAX_BYTES, resolveAccount, type UserAccount } from '../kernel/accounts.ts'
import { readInside } from '../kernel/inside.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** Resolves a user in the files of a sandbox. */
export async function findAccount(root: string, user: string | number): Promise<UserAccount> {
  const read = (path: string): Promise<string | undefined> => readInside(root, path, ACCOUNT_FILE_MAX_BYTES)
  return resolveAccount({ passwd: await read('/etc/passwd'), group: await read('/etc/group') }, user)
}

/** Maps an account to root, the only user in the user namespace of an ordinary user. Throws for other users. */
export function asOrdinaryUser(account: UserAccount, user: string | number): UserAccount {
  if (account.uid === 0 && account.gid === 0) return { ...account, groups: undefined }
  throw new SandboxUnsupported(`The user ${user} requires the provider local as root, or docker.`)
}
