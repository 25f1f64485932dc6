import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { buildGraderFiles, GRADER_SLACK_SEC } from '../../grading/grader-files.ts'
import { type HiddenTests, REPOSITORY_FOLDER, type RunPlan, type TestLists } from '../../grading/suite.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { type ReadTask, readTask } from '../../harbor/read-task.ts'
import { checkTask } from '../../harbor/safety/check-task.ts'
import { formatTaskToml } from '../../harbor/task-toml.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { done, reject, type StageRejection, type StageResult } from '../stage-result.ts'
import { buildTask, type GeneratedTaskInput, renderSaveBaseScript } from './generated-task.ts'

export type AssembleTaskInput = Omit<GeneratedTaskInput, 'verifierTimeoutSec'> & {
  /** Folder with the build context of the environment in which the tests ran. */
  environmentFolder: string
  /** The reference solution, as a patch. */
  source: string
  plan: RunPlan
  lists: TestLists
  hidden: HiddenTests
  /** Hosts in private networks whose registries the environment may use. */
  buildHosts?: readonly AllowedHost[] | undefined
}

/**
 * Writes a task into an empty folder and reads it back to verify it: Harbor parses it as intended, packs every file,
 * and the safety check refuses nothing. Tasks differ only in data; no model writes a script of a task.
 */
export async function assembleTask(folder: string, input: AssembleTaskInput): Promise<StageResult<ReadTask>> {
  await writeTask(folder, input)
  const source = await openFolderSource(folder)
  const { findings } = await checkTask(source, { buildHosts: input.buildHosts })
  const faults = findings.filter(({ severity }) => severity === 'block').map(({ path, detail }) => `${path}: ${detail}`)
  if (faults.length > 0) return rejectInvalid(faults)
  const read = await readTask(source)
  const packed = new Set(['task.toml', ...read.task.files.map(({ path }) => path)])
  const omitted = (await listFiles(folder)).filter((path) => !packed.has(path))
  return omitted.length > 0 ? rejectInvalid(omitted.map((path) => `${path}: Harbor would not pack it.`)) : done(read)
}

const FAULTS_SHOWN_MAX = 5
const DETAIL_LENGTH_MAX = 2000

const rejectInvalid = (faults: string[]): StageRejection =>
  reject('schema_invalid', faults.slice(0, FAULTS_SHOWN_MAX).join(' ').slice(0, DETAIL_LENGTH_MAX))

async function listFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.flatMap((entry) => (entry.isDirectory() ? [] : [relative(folder, join(entry.parentPath, entry.name))]))
}

async function writeTask(folder: string, input: AssembleTaskInput): Promise<void> {
  const outline = buildTask({ ...input, verifierTimeoutSec: input.plan.timeoutSec + GRADER_SLACK_SEC })
  await mkdir(folder, { recursive: true })
  await writeEnvironmentFolder(folder, input)
  await writeTestsFolder(folder, input)
  await writeText(join(folder, 'task.toml'), formatTaskToml({ ...outline, files: [] }))
  await writeText(join(folder, 'instruction.md'), normaliseNewlines(input.markdown))
  await writeText(join(folder, 'solution/solve.sh'), SOLVE_SCRIPT, 0o755)
  await writeText(join(folder, 'solution/fix.patch'), input.source, 0o644, 'latin1')
}

const SOLVE_SCRIPT = `#!/bin/bash
cd ${REPOSITORY_FOLDER} && git apply --whitespace=nowarn /solution/fix.patch
`

const normaliseNewlines = (text: string): string => text.replaceAll(/\r\n?/g, '\n')

async function writeEnvironmentFolder(folder: string, { environmentFolder }: AssembleTaskInput): Promise<void> {
  const target = join(folder, 'environment')
  await copyContext(environmentFolder, target)
  const dockerfile = await readFile(join(environmentFolder, 'Dockerfile'), 'utf8')
  await writeFile(join(target, 'Dockerfile'), `${withNewline(dockerfile)}RUN ${renderSaveBaseScript()}`)
}

async function writeTestsFolder(
  folder: string,
  { environmentFolder, plan, lists, hidden }: AssembleTaskInput,
): Promise<void> {
  const target = join(folder, 'tests')
  await copyContext(environmentFolder, target)
  const dockerfile = await readFile(join(environmentFolder, 'Dockerfile'), 'utf8')
  await mkdir(join(target, GRADER_FOLDER))
  for (const { path, content, executable } of buildGraderFiles(plan, lists, { hidden })) {
    await writeText(join(target, GRADER_FOLDER, path), content, executable ? 0o755 : 0o644, 'latin1')
  }
  await writeFile(join(target, 'Dockerfile'), renderVerifierDockerfile(dockerfile))
}

const copyContext = (from: string, to: string): Promise<void> =>
  cp(from, to, { recursive: true, errorOnExist: true, force: false, verbatimSymlinks: true })

async function writeText(path: string, text: string, mode = 0o644, encoding: BufferEncoding = 'utf8'): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text, { flag: 'wx', mode, encoding })
}

/**
 * Adds the tests to the environment of the test runs, so that layers are shared with the agent's image. Harbor uploads
 * nothing to /tests if the verifier has an image of its own. Only root can read the folder, because tests run as another
 * user.
 */
const renderVerifierDockerfile = (dockerfile: string): string =>
  `${withNewline(dockerfile)}COPY ${GRADER_FOLDER} /tests
RUN chmod -R u=rwX,go= /tests && chmod 700 /tests/test.sh
`

/** Folder of the grader files in the build context. The names of the other files there depend on the repository. */
const GRADER_FOLDER = 'grader'

const withNewline = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`)
