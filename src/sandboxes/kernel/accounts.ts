import { SandboxUnsupported } from '../sandbox.ts'

/** A user of a sandbox. Undefined `groups` means those of this process, which an ordinary user cannot change. */
export type UserAccount = { uid: number; gid: number; groups: number[] | undefined; home: string }

/** User that the launcher switches to, instead of the runtime. Undefined for root, whose groups the engine knows. */
export type SandboxIdentity = UserAccount | undefined

/** Contents of /etc/passwd and /etc/group. Undefined: file missing. */
export type AccountFiles = { passwd: string | undefined; group: string | undefined }

/** Larger account files are ignored. */
export const ACCOUNT_FILE_MAX_BYTES = 1e6
const ID_MAX = 2 ** 31

/**
 * Resolves `name`, `uid`, `name:group` or `uid:gid` as Docker does. `root` needs no entry. Throws SandboxUnsupported for other
 * unknown names.
 */
export function resolveAccount(files: AccountFiles, user: string | number): UserAccount {
  const [name = '', group] = String(user).split(':')
  const users = linesOf(files.passwd)
  const groups = linesOf(files.group)

  const entry = users.find(([first, , id]) => first === name || id === name)
  const uid = numberOf(entry?.[2] ?? (name === 'root' ? '0' : name))
  if (uid === undefined) throw new SandboxUnsupported(`The image has no user ${JSON.stringify(name)}.`)
  const gid = group ? findGroup(groups, group) : (numberOf(entry?.[3] ?? '') ?? 0)
  const memberOf = group
    ? []
    : groups.filter(([, , , members = '']) => entry?.[0] && members.split(',').includes(entry[0]))
  const extra = memberOf.flatMap(([, , id = '']) => numberOf(id) ?? [])
  return { uid, gid, groups: [...new Set([gid, ...extra])], home: entry?.[5] || '/' }
}

function findGroup(groups: string[][], name: string): number {
  const gid = numberOf(groups.find(([first, , id]) => first === name || id === name)?.[2] ?? name)
  if (gid === undefined) throw new SandboxUnsupported(`The image has no group ${JSON.stringify(name)}.`)
  return gid
}

const linesOf = (text = ''): string[][] => text.split('\n').map((line) => line.split(':'))

const numberOf = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) < ID_MAX ? Number(text) : undefined
