import type { BaseFilesystem, StoppedSandbox } from '../sandboxes/sandbox.ts'
import { isSystemFolder, isWithin, VERIFIER_PATHS } from './carried.ts'
import type { VerifyMode } from './record.ts'

/** What the verifier takes over from the agent's sandbox. `carried`: paths outside the working directory. */
export type SubmissionSource = { from: StoppedSandbox | undefined; workdir: string; carried: readonly string[] }

/** Returns the files that the verifier of a step starts with. */
function verifierSeed(mode: VerifyMode, { from, workdir, carried }: SubmissionSource): BaseFilesystem {
  if (!from) return { kind: 'image' }
  if (mode === 'shared-cold' || mode === 'shared-live') return { kind: 'snapshot', from, without: VERIFIER_PATHS }
  const outside = carried.filter((path) => workdir === '/' || !isWithin(path, workdir))
  // A system folder has programs and settings in it: of that, only the solution's paths are carried.
  const paths = isSystemFolder(workdir) ? [...carried] : [workdir, ...(mode === 'snapshot' ? outside : [])]
  return paths.length === 0 ? { kind: 'image' } : { kind: 'workspace', from, paths }
}

/** Returns the seed of a mode, then seeds with fewer files of the agent for when the first cannot be used. */
export function verifierSeeds(mode: VerifyMode, source: SubmissionSource): BaseFilesystem[] {
  const asked = verifierSeed(mode, source)
  if (asked.kind === 'image') return [asked]
  const narrower = verifierSeed('workspace', { ...source, carried: [] })
  const isNarrower = narrower.kind === 'workspace' && (mode === 'snapshot' || mode === 'shared-cold')
  return [asked, ...(isNarrower ? [narrower] : []), { kind: 'image' }]
}

/** What the agent of a step begins with: all that the one before left, but not what only that one was to see. */
export const agentSeed = (from: StoppedSandbox | undefined): BaseFilesystem =>
  from ? { kind: 'snapshot', from, without: VERIFIER_PATHS } : { kind: 'image' }

/** All that somebody left, to go on with it. */
export const wholeSeed = (from: StoppedSandbox | undefined): BaseFilesystem =>
  from ? { kind: 'snapshot', from, without: [] } : { kind: 'image' }
