import { chmod, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { TaskStep } from '../harbor/task.ts'
import type { Mount } from '../sandboxes/sandbox.ts'
import type { Bench } from './bench.ts'
import type { VerifyMode } from './record.ts'
import { stage } from './stage.ts'

/** The file that is run. An image that has the tests has it in Harbor's place. */
export function testCommand({ verifier }: TaskStep): string {
  const folder =
    verifier.testFolders.findLast((candidate) => verifier.testScript?.startsWith(`${candidate}/`)) ?? 'tests'
  return (verifier.testScript ?? 'tests/test.sh').replace(folder, '/tests')
}

/** Where the verifier writes its reward. In mode `grader` root alone may, which is us here and root in there. */
export async function rewardMount(bench: Bench, mode: VerifyMode): Promise<{ folder: string; mount: Mount }> {
  const folder = await mkdtemp(join(bench.folder, 'verifier-'))
  await chmod(folder, mode === 'grader' ? 0o700 : 0o777)
  return { folder, mount: { kind: 'folder', source: folder, target: '/logs/verifier', readOnly: false } }
}

/** Nothing when the verifier's image has the tests. */
export async function testMounts(bench: Bench, { verifier }: TaskStep, mode: VerifyMode): Promise<Mount[]> {
  if (verifier.testFolders.length === 0) return []
  const audience = mode === 'grader' ? 'root' : 'all'
  const source = await stage(bench.request.folder, verifier.testFolders, join(bench.folder, 'tests'), audience)
  return [{ kind: 'folder', source, target: '/tests', readOnly: true }]
}
