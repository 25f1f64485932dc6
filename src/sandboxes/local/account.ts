import { readInside } from '../kernel/inside.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** Without groups: those we have, which an ordinary user cannot change. */
export type Account = { uid: number; gid: number; groups: number[] | undefined; home: string }

const FILE_MAX_BYTES = 1e6
const ID_MAX = 2 ** 31

/** Who `name`, `uid`, `name:group` or `uid:gid` is in the files of a sandbox, as Docker reads it. */
export async function findAccount(root: string, user: string | number): Promise<Account> {
  const [name = '', group] = String(user).split(':')
  const users = linesOf(await readInside(root, '/etc/passwd', FILE_MAX_BYTES))
  const groups = linesOf(await readInside(root, '/etc/group', FILE_MAX_BYTES))

  const entry = users.find(([first, , id]) => first === name || id === name)
  const uid = numberOf(entry?.[2] ?? name)
  if (uid === undefined) throw new SandboxUnsupported(`The image has no user ${JSON.stringify(name)}.`)
  const gid = group ? findGroup(groups, group) : (numberOf(entry?.[3] ?? '') ?? 0)
  const memberOf = group
    ? []
    : groups.filter(([, , , members = '']) => entry?.[0] && members.split(',').includes(entry[0]))
  const extra = memberOf.flatMap(([, , id = '']) => numberOf(id) ?? [])
  return { uid, gid, groups: [...new Set([gid, ...extra])], home: entry?.[5] || '/' }
}

/** An ordinary user is root in its namespace, and nobody else. */
export function asOrdinaryUser(account: Account, user: string | number): Account {
  if (account.uid === 0 && account.gid === 0) return { ...account, groups: undefined }
  throw new SandboxUnsupported(`The user ${user} needs a local sandbox that is started by root, or docker.`)
}

function findGroup(groups: string[][], name: string): number {
  const gid = numberOf(groups.find(([first, , id]) => first === name || id === name)?.[2] ?? name)
  if (gid === undefined) throw new SandboxUnsupported(`The image has no group ${JSON.stringify(name)}.`)
  return gid
}

const linesOf = (text = ''): string[][] => text.split('\n').map((line) => line.split(':'))

const numberOf = (text: string): number | undefined =>
  /^\d{1,10}$/.test(text) && Number(text) < ID_MAX ? Number(text) : undefined
