import { type Db, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { findWorkspaceByLogin, setVerified } from '../workspaces/workspaces.ts'
import type { ReleaseTools } from './publish.ts'
import { type Endorsement, notTheOwner } from './schema.ts'
import * as rows from './sql.ts'

type Tools = Pick<ReleaseTools, 'show'> & { db: Db }
type Place = { owner: string; name: string; publisher: string }

type Workspace = KeyCaller['workspace']

export async function readEndorsement(db: Db, workspace: Workspace, place: Place): Promise<Endorsement> {
  const { publisher, found } = await readFound(db, workspace, place)
  return { repository: fullName(place), publisher: publisher.login, at: found.at.toISOString() }
}

/** Under another owner's name there is none of ours. */
async function readFound(db: Db, { id, login }: Workspace, place: Place) {
  const publisher = await findWorkspaceByLogin(db, place.publisher)
  const found = publisher && (await rows.findEndorsement(db, id, place.name, publisher.id))
  if (!found || login.toLowerCase() !== place.owner.toLowerCase())
    throw new Problem(notFound, `There is no endorsement of ${place.publisher} for ${fullName(place)}.`)
  return { publisher, found }
}

const fullName = ({ owner, name }: Place): string => `${owner}/${name}`

export function putEndorsement(tools: Tools, by: By, workspace: Workspace, place: Place): Promise<Endorsement> {
  return transact(tools.db, async (tx) => {
    await requireOwner(tx, workspace, place)
    const publisher = await findWorkspaceByLogin(tx, place.publisher)
    if (!publisher) throw new Problem(notFound, `There is no workspace ${place.publisher}.`)
    await rows.upsertEndorsement(tx, workspace.id, place.name, publisher.id)
    await record(tx, {
      ...by,
      action: 'release.endorsed',
      subject: fullName(place),
      detail: { publisher: publisher.login },
    })
    await tools.show(tx, place)
    return readEndorsement(tx, workspace, place)
  })
}

/** A login alone proves nothing. */
async function requireOwner(tx: Db, { login }: Workspace, { owner }: Place): Promise<void> {
  const own = await findWorkspaceByLogin(tx, login)
  const isOwner = login.toLowerCase() === owner.toLowerCase() && own !== undefined && own.verifiedAt !== null
  if (!isOwner) throw new Problem(notTheOwner, `Only the verified workspace ${owner} endorses for its repositories.`)
}

export function removeEndorsement(tools: Tools, by: By, workspace: Workspace, place: Place): Promise<void> {
  return transact(tools.db, async (tx) => {
    const { publisher } = await readFound(tx, workspace, place)
    await rows.removeEndorsement(tx, workspace.id, place.name, publisher.id)
    await record(tx, {
      ...by,
      action: 'release.unendorsed',
      subject: fullName(place),
      detail: { publisher: publisher.login },
    })
    await tools.show(tx, place)
  })
}

/** Whoever is verified stands for all that it publishes, and for all that it endorsed. */
export function verifyWorkspace(tools: Tools, login: string, isVerified: boolean, requestId: string) {
  return transact(tools.db, async (tx) => {
    const workspace = await setVerified(tx, login, isVerified)
    const action = isVerified ? 'workspace.verified' : 'workspace.unverified'
    await record(tx, { workspaceId: workspace.id, actor: 'operator', requestId, action, subject: workspace.login })
    for (const name of await rows.listOwnedNames(tx, workspace.login))
      await tools.show(tx, { owner: workspace.login, name })
    return { login: workspace.login, verifiedAt: workspace.verifiedAt?.toISOString() ?? '' }
  })
}
