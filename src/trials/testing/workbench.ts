import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { baseRootfs } from '../../../test/support/base-image.ts'
import { inFolder } from '../../harbor/folder-source.ts'
import { readTask } from '../../harbor/read-task.ts'
import type { Harness } from '../../harnesses/harness.ts'
import { createLog } from '../../platform/log.ts'
import { createLocalProvider } from '../../sandboxes/local.ts'
import type { Provider } from '../../sandboxes/sandbox.ts'
import type { TrialRecord, VerifyMode } from '../record.ts'
import { runTrial } from '../trial.ts'

export const IMAGE = 'debian:bookworm-slim'

/** A provider with a base image, and a place for tasks and output; all of it goes at the end. */
export async function openWorkbench(runtime: 'bwrap' | 'runc') {
  const folder = mkdtempSync(join(tmpdir(), 'assay-workbench-'))
  const provider = createLocalProvider({ dataFolder: folder, runtime, allowHostBase: false, log: createLog('silent') })
  await provider.importRootfs(await baseRootfs(), IMAGE)
  return {
    provider: provider as Provider,
    folder,
    run: (taskFolder: string, harness: Harness, verifyMode: VerifyMode = 'workspace') =>
      runTask(provider, { taskFolder, harness, verifyMode, outputFolder: folder }),
    [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

type Wish = { taskFolder: string; harness: Harness; verifyMode: VerifyMode; outputFolder: string }

async function runTask(provider: Provider, wish: Wish): Promise<TrialRecord> {
  const { task, digest } = await readTask(await inFolder(wish.taskFolder))
  return runTrial(provider, {
    ...wish,
    task,
    digest,
    folder: wish.taskFolder,
    variables: {},
    signal: new AbortController().signal,
    onPhase: () => {},
  })
}

const TASK_TOML = `schema_version = "1.4"
[task]
name = "assay/hello"
[environment]
docker_image = "${IMAGE}"
workdir = "/app"
[agent]
timeout_sec = 20
[verifier]
timeout_sec = 20
`

const TEST_SH = `#!/bin/bash
if [ "$(cat /app/hello.txt)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`

/** A task whose solution is one line. Files given here are added, or take the place of its own. */
export function writeTask(folder: string, files: Record<string, string> = {}): string {
  const all = {
    'task.toml': TASK_TOML,
    'instruction.md': 'Write the word hello to /app/hello.txt.\n',
    'environment/.gitkeep': '',
    'tests/test.sh': TEST_SH,
    'solution/solve.sh': '#!/bin/bash\necho hello > /app/hello.txt\n',
    ...files,
  }
  for (const [path, content] of Object.entries(all)) {
    const target = join(folder, path)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, content)
    if (path.endsWith('.sh')) chmodSync(target, 0o755)
  }
  return folder
}
