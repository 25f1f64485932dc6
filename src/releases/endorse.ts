import { type Db, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { findWorkspaceByLogin, setVerified } from '../workspaces/workspaces.ts'
import { fullNameOf } from './preview.ts'
import type { ReleaseDeps } from './publish.ts'
import { type Endorsement, notTheOwner } from './schema.ts'
import * as rows from './sql.ts'

type EndorsementDeps = Pick<ReleaseDeps, 'updateResults'> & { db: Db }
type EndorsementRef = { owner: string; name: string; publisher: string }

type CallerWorkspace = KeyCaller['workspace']

export async function readEndorsement(db: Db, workspace: CallerWorkspace, ref: EndorsementRef): Promise<Endorsement> {
  const { publisher, row } = await readEndorsementRow(db, workspace, ref)
  return { repository: fullNameOf(ref), publisher: publisher.login, at: row.at.toISOString() }
}

/** Reads an endorsement. A workspace has endorsements only for repositories under its own login. */
async function readEndorsementRow(db: Db, { id, login }: CallerWorkspace, ref: EndorsementRef) {
  const publisher = await findWorkspaceByLogin(db, ref.publisher)
  const row = publisher && (await rows.findEndorsement(db, id, ref.name, publisher.id))
  if (!row || login.toLowerCase() !== ref.owner.toLowerCase())
    throw new Problem(notFound, `No endorsement of ${ref.publisher} for ${fullNameOf(ref)} found`)
  return { publisher, row }
}

export function putEndorsement(
  deps: EndorsementDeps,
  by: AuditActor,
  workspace: CallerWorkspace,
  ref: EndorsementRef,
): Promise<Endorsement> {
  return transact(deps.db, async (tx) => {
    await requireOwner(tx, workspace, ref)
    const publisher = await findWorkspaceByLogin(tx, ref.publisher)
    if (!publisher) throw new Problem(notFound, `Workspace ${ref.publisher} not found`)
    await rows.upsertEndorsement(tx, workspace.id, ref.name, publisher.id)
    const detail = { publisher: publisher.login }
    await record(tx, { ...by, action: 'release.endorsed', subject: fullNameOf(ref), detail })
    await deps.updateResults(tx, ref)
    return readEndorsement(tx, workspace, ref)
  })
}

/** Throws unless the workspace owns the login and the operator has verified it. A login alone proves nothing. */
async function requireOwner(tx: Db, { login }: CallerWorkspace, { owner }: EndorsementRef): Promise<void> {
  const workspace = await findWorkspaceByLogin(tx, login)
  const isVerified = workspace !== undefined && workspace.verifiedAt !== null
  const isOwner = login.toLowerCase() === owner.toLowerCase() && isVerified
  if (!isOwner)
    throw new Problem(notTheOwner, `Only the verified workspace ${owner} can endorse results of its repositories.`)
}

export function removeEndorsement(
  deps: EndorsementDeps,
  by: AuditActor,
  workspace: CallerWorkspace,
  ref: EndorsementRef,
): Promise<void> {
  return transact(deps.db, async (tx) => {
    const { publisher } = await readEndorsementRow(tx, workspace, ref)
    await rows.removeEndorsement(tx, workspace.id, ref.name, publisher.id)
    const detail = { publisher: publisher.login }
    await record(tx, { ...by, action: 'release.unendorsed', subject: fullNameOf(ref), detail })
    await deps.updateResults(tx, ref)
  })
}

type VerifyWorkspaceInput = { login: string; isVerified: boolean; requestId: string }

/** Sets whether a workspace is verified. The status of its releases, and of those that it endorsed, changes too. */
export function verifyWorkspace(deps: EndorsementDeps, { login, isVerified, requestId }: VerifyWorkspaceInput) {
  return transact(deps.db, async (tx) => {
    const workspace = await setVerified(tx, login, isVerified)
    const action = isVerified ? 'workspace.verified' : 'workspace.unverified'
    await record(tx, { workspaceId: workspace.id, actor: 'operator', requestId, action, subject: workspace.login })
    for (const name of await rows.listOwnedNames(tx, workspace.login))
      await deps.updateResults(tx, { owner: workspace.login, name })
    return { login: workspace.login, verifiedAt: workspace.verifiedAt?.toISOString() ?? '' }
  })
}
