import { HARNESS_FOLDER } from '../harnesses/harness.ts'
import type { Remains, Seed } from '../sandboxes/sandbox.ts'
import type { VerifyMode } from './record.ts'

/** Where a cheat would put what makes every later command lie: programs, libraries, and what shells and interpreters read. */
const PROTECTED = [
  '/bin',
  '/sbin',
  '/lib',
  '/lib64',
  '/usr/bin',
  '/usr/sbin',
  '/usr/lib',
  '/usr/lib64',
  '/usr/libexec',
  '/usr/local/bin',
  '/usr/local/sbin',
  '/usr/local/lib',
  '/usr/share/perl',
  '/usr/share/perl5',
  '/usr/share/python3',
  '/usr/share/nodejs',
  '/usr/local/share/perl',
  '/etc/perl',
  // Half of the programs in /usr/bin are links to here.
  '/etc/alternatives',
  // Python looks for it beside the folder of its program, and takes its whole library from where it says.
  '/usr/pyvenv.cfg',
  '/usr/local/pyvenv.cfg',
  // Says which library every program with TLS loads.
  '/etc/ssl/openssl.cnf',
  '/etc/gitconfig',
  '/root/.gitconfig',
  '/etc/ld.so.preload',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
  '/etc/ld.so.cache',
  '/etc/profile',
  '/etc/profile.d',
  '/etc/bash.bashrc',
  '/etc/environment',
  '/root/.bashrc',
  '/root/.profile',
  '/root/.bash_profile',
  '/root/.local',
]
/** What the verifier itself brings, and what an agent could plant for it. Of a harness nothing is left for anybody. */
const OF_THE_VERIFIER = ['/tests', '/logs', '/solution', HARNESS_FOLDER]

/** What the verifier of a step begins with. */
function verifierSeed(mode: VerifyMode, from: Remains | undefined, workdir: string): Seed {
  if (!from) return { kind: 'image' }
  // The root folder as a workspace would be everything: there the next mode is the strictest that means anything.
  if ((mode === 'workspace' || mode === 'grader') && workdir !== '/')
    return { kind: 'workspace', from, paths: [workdir] }
  const without = mode === 'shared-cold' ? OF_THE_VERIFIER : [...PROTECTED, ...OF_THE_VERIFIER]
  return { kind: 'snapshot', from, without }
}

/** The same with less and less of what the agent left, for when all of it cannot be used. */
export function verifierSeeds(mode: VerifyMode, from: Remains | undefined, workdir: string): Seed[] {
  const asked = verifierSeed(mode, from, workdir)
  if (asked.kind === 'image') return [asked]
  const narrower = asked.kind === 'snapshot' && workdir !== '/' ? [verifierSeed('workspace', from, workdir)] : []
  return [asked, ...narrower, { kind: 'image' }]
}

/** What the agent of a step begins with: all that the one before left, but not what only that one was to see. */
export const agentSeed = (from: Remains | undefined): Seed =>
  from ? { kind: 'snapshot', from, without: OF_THE_VERIFIER } : { kind: 'image' }

/** All that somebody left, to go on with it. */
export const wholeSeed = (from: Remains | undefined): Seed =>
  from ? { kind: 'snapshot', from, without: [] } : { kind: 'image' }
