import { readdir } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { openFolderSource } from '../folder-source.ts'
import { readOutline } from '../read-task.ts'
import { sanitizeText } from '../report.ts'
import type { FileSource, SourceFile } from '../source.ts'
import type { TaskFileOptions } from '../task-files.ts'
import type { SafetyFinding, SafetyRule } from './rule.ts'
import { composeFileRules } from './rules/compose-files.ts'
import { composePrivilegeRules } from './rules/compose-privileges.ts'
import { credentialRules } from './rules/credentials.ts'
import { dangerRules } from './rules/dangers.ts'
import { dockerfileRules } from './rules/dockerfile.ts'
import { formRules } from './rules/form.ts'
import { imageRules } from './rules/image.ts'
import { instructionRules } from './rules/instruction.ts'
import { limitRules } from './rules/limits.ts'
import { registryRules } from './rules/registries.ts'
import { variableRules } from './rules/variables.ts'
import { estimateStrength, type StrengthEstimate } from './verifier-strength.ts'
import { createView, type ScannedFile, type TaskContents, type TaskView } from './view.ts'

/** Version of the rule set, stored with each result. Increment it whenever a rule is added, removed or changed. */
export const RULES_VERSION = '6'

export const RULES: readonly SafetyRule[] = [
  ...formRules,
  ...composePrivilegeRules,
  ...composeFileRules,
  ...variableRules,
  ...dockerfileRules,
  ...registryRules,
  ...imageRules,
  ...limitRules,
  ...credentialRules,
  ...dangerRules,
  ...instructionRules,
]

/** `buildHosts`: hosts of private networks that the operator allows as registries of images. */
export type SafetyCheckOptions = { buildHosts?: readonly AllowedHost[] | undefined }

/** `strength` is undefined if task.toml is unreadable. */
export type SafetyCheck = { rules: string; findings: SafetyFinding[]; strength: StrengthEstimate | undefined }

/** Applies every rule to a task folder without executing any of it. */
export const checkTask = async (source: FileSource, { buildHosts }: SafetyCheckOptions = {}): Promise<SafetyCheck> =>
  applyRules(await readContents(source), buildHosts)

export function applyRules(contents: TaskContents, buildHosts: readonly AllowedHost[] = []): SafetyCheck {
  const view = createView(contents, buildHosts)
  return {
    rules: RULES_VERSION,
    findings: dropRedundant(RULES.flatMap((rule) => runRule(rule, view))),
    strength: view.outline && estimateStrength(view.outline, view.texts),
  }
}

const FINDINGS_PER_RULE_MAX = 20

const runRule = ({ id, severity, check }: SafetyRule, view: TaskView): SafetyFinding[] =>
  check(view)
    .slice(0, FINDINGS_PER_RULE_MAX)
    .map(({ path, line, detail }) => ({
      rule: id,
      severity,
      path: sanitizeText(path),
      line,
      detail: sanitizeText(detail),
    }))

/** Drops `schema` findings about unsupported compose keys if a more specific rule refuses the same key. */
function dropRedundant(findings: SafetyFinding[]): SafetyFinding[] {
  const specific = findings.filter(({ rule, severity }) => rule !== 'schema' && severity === 'block')
  const paths = new Set(specific.map(({ path }) => path))
  const prefixes = new Set(specific.flatMap(({ path }) => listPathPrefixes(path)))
  const isRedundant = ({ rule, path }: SafetyFinding) =>
    rule === 'schema' &&
    path.includes('.yaml.') &&
    (prefixes.has(path) || listPathPrefixes(path).some((start) => paths.has(start)))
  return findings.filter((finding) => !isRedundant(finding))
}

/** Returns `a`, `a.b` and `a.b.c` for `a.b.c`. */
const listPathPrefixes = (path: string): string[] => {
  const parts = path.split('.')
  return parts.map((_, last) => parts.slice(0, last + 1).join('.'))
}

export type FolderCheck = {
  rules: string
  tasks: { task: string; findings: SafetyFinding[]; strength: SafetyCheck['strength'] }[]
}

/** Checks a task folder, or all task folders directly inside a folder. */
export async function checkFolder(folder: string, options: SafetyCheckOptions): Promise<FolderCheck> {
  const tasks: FolderCheck['tasks'] = []
  for (const path of await listTaskFolders(resolve(folder))) {
    const { findings, strength }: SafetyCheck = await checkTask(await openFolderSource(path), options)
    tasks.push({ task: basename(path), findings, strength })
  }
  return { rules: RULES_VERSION, tasks }
}

/** Lists task folders. A folder without any task.toml is treated as a task that lacks it. */
async function listTaskFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  if (entries.some(({ name }) => name === 'task.toml')) return [folder]
  const inner: string[] = []
  for (const entry of entries.filter((each) => each.isDirectory())) {
    const path = join(folder, entry.name)
    if ((await readdir(path)).includes('task.toml')) inner.push(path)
  }
  return inner.length > 0 ? inner.toSorted() : [folder]
}

/** Maximum number of bytes scanned per file. Larger text files get a warning. */
const SCANNED_FILE_BYTES_MAX = 1024 * 1024
/** Maximum number of bytes scanned per task. */
const SCANNED_TASK_BYTES_MAX = 32 * 1024 * 1024

/** Reads a task for the rules. Each file is read once, up to a limit. */
export async function readContents(source: FileSource, options?: TaskFileOptions): Promise<TaskContents> {
  const { outline, listed, report } = await readOutline(source, options)
  return {
    outline,
    files: listed,
    refusals: report.refusals,
    warnings: report.warnings,
    scanned: await scanFiles(source, listed),
  }
}

/** Number of files that are read concurrently. */
const READERS = 8

async function scanFiles(source: FileSource, listed: SourceFile[]): Promise<ScannedFile[]> {
  const queue = selectScanned(listed).entries()
  const scanned: ScannedFile[] = []
  const read = async () => {
    for (const [index, { path }] of queue) scanned[index] = { path, ...(await readHead(source, path)) }
  }
  await Promise.all(Array.from({ length: READERS }, read))
  return scanned
}

/** Selects the files to scan. Files that rules know by name come first, so that other files cannot crowd them out. */
function selectScanned(listed: SourceFile[]): SourceFile[] {
  const rank = ({ path }: SourceFile) => (/^(?:[^/]+|environment\/[^/]+|.*\.(?:sh|toml|ya?ml))$/.test(path) ? 0 : 1)
  let total = 0
  return listed
    .toSorted((a, b) => rank(a) - rank(b))
    .filter(({ bytes }) => {
      total += Math.min(bytes, SCANNED_FILE_BYTES_MAX)
      return total <= SCANNED_TASK_BYTES_MAX
    })
}

async function readHead(source: FileSource, path: string): Promise<Pick<ScannedFile, 'bytes' | 'isWhole'>> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of await source.open(path)) {
    chunks.push(chunk)
    length += chunk.length
    if (length > SCANNED_FILE_BYTES_MAX) break
  }
  const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  return { bytes: bytes.subarray(0, SCANNED_FILE_BYTES_MAX), isWhole: length <= SCANNED_FILE_BYTES_MAX }
}
