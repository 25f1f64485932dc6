import { listLiveCapabilities } from '../catalog/capabilities.ts'
import type { CredentialDeps } from '../credentials/credentials.ts'
import { findUnreadable } from '../credentials/secrets.ts'
import type { Db } from '../platform/db/db.ts'
import { type CheckResult, runChecks, type SystemCheck } from '../platform/health.ts'
import type { Log } from '../platform/log.ts'

type HealthDeps = { db: Db; credentials: CredentialDeps; log: Log; serviceChecks: SystemCheck[] }

const ASK = 'Ask the operator: the log of the service has the reason.'

/**
 * Checks what a workspace depends on: the service, its own credentials and the sandboxes on offer. Findings about the
 * service name no key, path, address or version, because every workspace reads them; the log has the details.
 */
export async function checkWorkspace(deps: HealthDeps, workspaceId: string): Promise<CheckResult[]> {
  const { db, credentials, log, serviceChecks } = deps
  const service = await runChecks(serviceChecks)
  for (const finding of service) if (!finding.ok) log.warn({ finding }, 'a health check failed')
  const own = await runChecks([credentialsCheck(credentials, workspaceId), sandboxesCheck(db)])
  return [...service.map(withoutDetails), ...own]
}

const withoutDetails = ({ name, ok }: CheckResult): CheckResult => ({
  name,
  ok,
  detail: ok ? 'works' : 'does not work',
  fix: ok ? null : ASK,
})

const credentialsCheck = (deps: CredentialDeps, workspaceId: string): SystemCheck => ({
  name: 'credentials',
  fix: 'Send the secret again with PATCH. Whether a provider accepts one: POST …/credentials/{id}/check.',
  run: async () => {
    const { stored, names } = await findUnreadable(deps, workspaceId)
    if (names.length > 0)
      throw new Error(`${names.length} of ${stored} stored secrets cannot be opened: ${names.join(', ')}`)
    return stored === 0 ? 'none stored' : `${stored} stored, all can be opened`
  },
})

const sandboxesCheck = (db: Db): SystemCheck => ({
  name: 'sandboxes',
  fix: 'Ask the operator to start a worker whose sandbox works (assay doctor).',
  run: async () => {
    const working = (await listLiveCapabilities(db)).filter(({ available }) => available)
    if (working.length === 0) throw new Error('no worker can run a trial')
    return [...new Set(working.map(({ sandbox, isolation }) => `${sandbox} (${isolation})`))].join(', ')
  },
})
