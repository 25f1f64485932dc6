import { lchown, lstat, readdir, readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { ignoreAbsent } from './unavailable.ts'

export type OsAccount = { uid: number; gid: number }

/** Unprivileged accounts. initdb needs one that exists in /etc/passwd. */
const UNPRIVILEGED = ['postgres', '_postgres', 'nobody']

export const ownAccount = (): OsAccount => ({ uid: process.geteuid?.() ?? -1, gid: process.getegid?.() ?? -1 })

export async function findUnprivileged(): Promise<OsAccount | undefined> {
  const text = (await readFile('/etc/passwd', 'utf8').catch(ignoreAbsent)) ?? ''
  const lines = text.split('\n').map((line) => line.split(':'))
  const found = UNPRIVILEGED.map((name) => lines.find(([first]) => first === name)).find((line) => line !== undefined)
  return found && { uid: Number(found[2]), gid: Number(found[3]) }
}

/** Returns whether the user id has an account. Containers may run without one, which initdb refuses. */
export function isNamed(account: OsAccount): boolean {
  try {
    return userInfo().uid === account.uid
  } catch {
    return false
  }
}

export async function findOwner(path: string): Promise<OsAccount | undefined> {
  const found = await stat(path).catch(ignoreAbsent)
  return found && { uid: found.uid, gid: found.gid }
}

/** Changes the owner of a tree. The top comes last, so that an interrupted change is detected and repeated. */
export async function changeTreeOwner(top: string, owner: OsAccount): Promise<void> {
  if ((await lstat(top)).uid === owner.uid) return
  const entries = await readdir(top, { recursive: true, withFileTypes: true })
  await Promise.all(entries.map((entry) => lchown(join(entry.parentPath, entry.name), owner.uid, owner.gid)))
  await changeOwner(top, owner)
}

export async function changeOwner(path: string, owner: OsAccount): Promise<void> {
  if ((await lstat(path)).uid !== owner.uid) await lchown(path, owner.uid, owner.gid)
}
