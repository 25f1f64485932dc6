import { open, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../platform/blobs/error-codes.ts'
import { EngineUnreachable, type SandboxProvider } from '../sandboxes/sandbox.ts'

/**
 * Reports whether a failure is a proven outage of the sandbox engine or of this machine's disk. After an agent has begun,
 * only a proven outage may exclude its trial, so the error alone is not enough where the agent could have caused it: the
 * engine and the disk are tried.
 */
export async function isProvenOutage(error: unknown, provider: SandboxProvider, folder: string): Promise<boolean> {
  const causes = causeChain(error)
  if (causes.some((cause) => cause instanceof EngineUnreachable)) return true
  if (causes.some((cause) => hasCode(cause, 'ENOSPC', 'EDQUOT', 'EIO', 'EROFS')) && !(await isDiskUsable(folder)))
    return true
  return provider.selfTest().then(
    () => false,
    () => true,
  )
}

/** Bounded, because an error may name itself as its cause. */
const CAUSES_MAX = 10

function causeChain(error: unknown): unknown[] {
  const causes: unknown[] = []
  for (let next = error; next !== undefined && causes.length < CAUSES_MAX; ) {
    causes.push(next)
    next = next instanceof Error ? next.cause : undefined
  }
  return causes
}

const FREE_BYTES_MIN = 64 * 1024 * 1024

async function isDiskUsable(folder: string): Promise<boolean> {
  const path = join(folder, '.disk-probe')
  try {
    const { bavail, bsize } = await statfs(folder)
    if (bavail * bsize < FREE_BYTES_MIN) return false
    await using file = await open(path, 'w')
    await file.writeFile(Buffer.alloc(4096))
    await file.sync()
    return true
  } catch {
    return false
  } finally {
    await rm(path, { force: true }).catch(() => {})
  }
}
