import { posix } from 'node:path'
import { isWithin } from '../harbor/paths.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { HOME } from '../harnesses/harness.ts'
import { type FileChange, SandboxUnavailable, type SandboxUpload, type StoppedSandbox } from '../sandboxes/sandbox.ts'
import { isStartupFile } from './base-filesystem.ts'
import { packFolders, packTexts } from './tar.ts'

/** The agent's files that the verifier gets: the paths, and the sandbox that they come from. */
type Submission = {
  from: StoppedSandbox | undefined
  paths: readonly string[]
  /** Startup files that reach the verifier because the reference solution changes them too. */
  startupFiles: readonly string[]
  /** Starts and ends a sandbox of the verifier's image, which has the original versions of the agent's files. */
  openImage: () => Promise<StoppedSandbox>
}

/** The user that runs the tests. `home` is set if the image or the task sets HOME. */
type VerifierUser = { user: string | number; home: string | undefined }

/** Additions to the verifier's sandbox that keep its tools from reading configuration that the agent wrote. */
type SubmissionGuard = { env: Record<string, string>; uploads: SandboxUpload[] }

/** Replaces the settings of git that start programs. Environment variables take precedence over a repository's configuration. */
const GIT_SETTINGS = [
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.pager', 'cat'],
  ['core.sshCommand', 'ssh'],
  ['core.attributesFile', '/dev/null'],
  ['credential.helper', ''],
  ['protocol.ext.allow', 'never'],
] as const

const GIT_ENV: Record<string, string> = {
  GIT_CONFIG_COUNT: String(GIT_SETTINGS.length),
  ...Object.fromEntries(
    GIT_SETTINGS.flatMap(([key, value], index) => [
      [`GIT_CONFIG_KEY_${index}`, key],
      [`GIT_CONFIG_VALUE_${index}`, value],
    ]),
  ),
}

/**
 * Rewrites git configuration and hooks that the agent changed, restores startup files of shells to those of the image, and
 * gives the verifier an empty home directory where its own one is part of the submission. Throws SandboxUnavailable where
 * the agent's files cannot be inspected.
 */
export async function guardSubmission(submission: Submission, verifier: VerifierUser): Promise<SubmissionGuard> {
  const { from, paths } = submission
  if (!from || paths.length === 0) return { env: GIT_ENV, uploads: [] }
  const scan = await scanChanges(from, paths)
  const uploads = [...(await listGitUploads(from, scan)), ...(await listStartupUploads(submission, scan))]
  const home = verifier.home ?? (await readHome(from, verifier.user, scan.hasNewAccounts))
  if (home !== undefined && !paths.some((path) => isWithin(home, path))) return { env: GIT_ENV, uploads }
  const homeFolders = packFolders(listFoldersTo(HOME))
  return { env: { ...GIT_ENV, HOME }, uploads: [...uploads, { target: '/', tar: homeFolders }] }
}

const listFoldersTo = (path: string): string[] =>
  path
    .slice(1)
    .split('/')
    .map((_, index, parts) => parts.slice(0, index + 1).join('/'))

type SubmissionScan = {
  /** Changed files named like git configuration. */
  configs: string[]
  /** Changed files in folders named `hooks`, and files in place of such a folder. */
  hooks: string[]
  /** Changed files that shells read by themselves. */
  startup: string[]
  hasNewAccounts: boolean
}

/** Maximum number of files that are inspected one by one. */
const CANDIDATES_MAX = 200

async function scanChanges(from: StoppedSandbox, paths: readonly string[]): Promise<SubmissionScan> {
  const scan: SubmissionScan = { configs: [], hooks: [], startup: [], hasNewAccounts: false }
  for await (const change of from.changes()) {
    if (change.path === '/etc/passwd') scan.hasNewAccounts = true
    if (change.kind !== 'deleted' && paths.some((path) => isWithin(change.path, path))) addToScan(scan, change)
    if (scan.configs.length + scan.hooks.length + scan.startup.length > CANDIDATES_MAX)
      throw new SandboxUnavailable('The agent left too many files named like git configuration or startup files.')
  }
  return scan
}

function addToScan(scan: SubmissionScan, { path, kind, isUnreadable }: FileChange): void {
  const name = posix.basename(path)
  const isConfig = name === 'config' || name === 'config.worktree'
  if (isUnreadable && (isConfig || kind === 'folder'))
    throw new SandboxUnavailable(
      `The agent left a path that cannot be inspected: ${JSON.stringify(path.slice(0, 200))}.`,
    )
  if (kind !== 'file') return
  if (isConfig) scan.configs.push(path)
  if (isStartupFile(path)) scan.startup.push(path)
  if (name === 'hooks' || posix.basename(posix.dirname(path)) === 'hooks') scan.hooks.push(path)
}

async function listGitUploads(from: StoppedSandbox, { configs, hooks }: SubmissionScan): Promise<SandboxUpload[]> {
  const cache = new Map<string, Promise<boolean>>()
  const isGitFolder = (folder: string): Promise<boolean> => {
    const isGit = cache.get(folder) ?? hasGitFolders(from, folder)
    cache.set(folder, isGit)
    return isGit
  }
  const uploads: SandboxUpload[] = []
  for (const path of configs) {
    if (path.endsWith('/config.worktree') || (await isGitFolder(posix.dirname(path))))
      uploads.push(toTextUpload(path, sanitizeGitConfig((await readText(from, path)) ?? '')))
  }
  for (const path of hooks) if (await isGitFolder(toGitFolder(path))) uploads.push(toTextUpload(path, ''))
  return uploads
}

async function listStartupUploads(
  { startupFiles, openImage }: Submission,
  { startup }: SubmissionScan,
): Promise<SandboxUpload[]> {
  const changed = [...new Set(startup)].filter((path) => !startupFiles.includes(path))
  if (changed.length === 0) return []
  const image = await openImage()
  const uploads: SandboxUpload[] = []
  for (const path of changed) {
    const original = await image.collect(path, { files: 1, bytes: TEXT_MAX_BYTES })
    uploads.push(original ? { target: posix.dirname(path), tar: original.tar } : toTextUpload(path, ''))
  }
  return uploads
}

/** Returns the folder of a repository, given a file in its folder `hooks` or a file in place of that folder. */
const toGitFolder = (hook: string): string =>
  posix.dirname(posix.basename(hook) === 'hooks' ? hook : posix.dirname(hook))

const hasGitFolders = async (from: StoppedSandbox, folder: string): Promise<boolean> =>
  (await exists(from, `${folder}/objects`)) && (await exists(from, `${folder}/refs`))

async function exists(from: StoppedSandbox, path: string): Promise<boolean> {
  const found = await from.collect(path, { files: 1, bytes: 0 })
  // Reading the archive to its end releases the file behind it.
  for await (const _ of found?.tar ?? []);
  return found !== undefined
}

/** Returns the upload of a file that git reads but does not execute. */
const toTextUpload = (path: string, text: string): SandboxUpload => ({
  target: posix.dirname(path),
  tar: packTexts('.', [{ path: posix.basename(path), text, mode: 0o644 }], { uid: 0, writableByAll: false }),
})

const TEXT_MAX_BYTES = 1024 ** 2

/** Returns undefined for anything but a text file of ordinary size. */
async function readText(from: StoppedSandbox, path: string): Promise<string | undefined> {
  const found = await from.collect(path, { files: 1, bytes: TEXT_MAX_BYTES })
  if (!found) return undefined
  let text: string | undefined
  for await (const entry of readTarEntries(found.tar)) {
    const chunks: Buffer[] = []
    for await (const chunk of entry.content()) chunks.push(chunk)
    if (entry.type === 'File' || entry.type === 'OldFile') text = Buffer.concat(chunks).toString('utf8')
  }
  return text?.includes('\0') ? undefined : text
}

/** Returns the home directory of a user in the image, or undefined if the agent changed the accounts. */
async function readHome(
  from: StoppedSandbox,
  user: string | number,
  hasNewAccounts: boolean,
): Promise<string | undefined> {
  if (hasNewAccounts) return undefined
  const [name = ''] = String(user || 0).split(':')
  const lines = ((await readText(from, '/etc/passwd')) ?? '').split('\n')
  for (const line of lines) {
    const [login, , uid, , , home] = line.split(':')
    if (login === name || uid === name) return home || '/'
  }
  return '/'
}

/** A setting of a git configuration file. Section and key are lower case. `value` is null for a key without a value. */
type GitSetting = { section: string; subsection: string | null; key: string; value: string | null }

/** Settings with which git starts no program and reads no other file. */
const HARMLESS_SETTINGS: readonly RegExp[] = [
  /^core\.(repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode)$/,
  /^core\.(autocrlf|eol|safecrlf|abbrev|quotepath|sharedrepository|sparsecheckout|sparsecheckoutcone|whitespace)$/,
  /^extensions\.(objectformat|refstorage)$/,
  /^remote\.\*\.(url|pushurl|fetch|push|tagopt|mirror|prune)$/,
  /^branch\.\*\.(remote|merge|rebase|pushremote|description)$/,
  /^submodule\.\*\.(url|active)$/,
  /^submodule\.active$/,
  /^user\.(name|email)$/,
  /^init\.defaultbranch$/,
  /^pull\.(rebase|ff)$/,
  /^push\.(default|autosetupremote)$/,
  /^merge\.(ff|conflictstyle)$/,
  /^color\.ui$/,
  /^rerere\.enabled$/,
]

/**
 * Returns a git configuration with the harmless settings of an untrusted one. Every line is rewritten, so that git and this
 * parser cannot disagree about its meaning.
 */
export function sanitizeGitConfig(text: string): string {
  return parseGitConfig(text).filter(isHarmless).map(writeSetting).join('')
}

const isHarmless = ({ section, subsection, key }: GitSetting): boolean =>
  HARMLESS_SETTINGS.some((pattern) => pattern.test(subsection === null ? `${section}.${key}` : `${section}.*.${key}`))

type ConfigSection = Pick<GitSetting, 'section' | 'subsection'>

const SECTION_LINE = /^\s*\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]/
const KEY_LINE = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:(=)(.*))?$/

/** Parses the text of a git configuration. Lines that are not understood are skipped. */
function parseGitConfig(text: string): GitSetting[] {
  const settings: GitSetting[] = []
  let section: ConfigSection | undefined
  for (const line of joinContinued(text)) {
    const header = SECTION_LINE.exec(line)
    if (header || /^\s*\[/.test(line)) section = toSection(header)
    const setting = section && parseSetting(section, line.slice(header?.[0].length ?? 0))
    if (setting) settings.push(setting)
  }
  return settings
}

const toSection = (header: RegExpExecArray | null): ConfigSection | undefined =>
  header ? { section: (header[1] ?? '').toLowerCase(), subsection: unescapeSubsection(header[2]) } : undefined

function parseSetting(section: ConfigSection, line: string): GitSetting | undefined {
  const match = KEY_LINE.exec(line)
  if (match === null) return undefined
  const [, key = '', equals, text = ''] = match
  const value = equals === undefined ? null : parseValue(text)
  return value === undefined ? undefined : { ...section, key: key.toLowerCase(), value }
}

const unescapeSubsection = (subsection: string | undefined): string | null =>
  subsection?.replace(/\\(.)/g, '$1') ?? null

/** Splits a text into lines. A line that ends with a backslash is joined with the next one. */
function joinContinued(text: string): string[] {
  return text
    .replace(/^\uFEFF/, '')
    .replace(/\r\n/g, '\n')
    .replace(/((?:^|[^\\])(?:\\\\)*)\\\n/g, '$1')
    .split('\n')
}

const QUOTED_VALUE = /^\s*"((?:[^"\\]|\\[ntb"\\])*)"\s*(?:[#;].*)?$/
const PLAIN_VALUE = /^\s*((?:[^"\\#;]|\\[ntb"\\])*?)\s*(?:[#;].*)?$/
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', b: '\b', '"': '"', '\\': '\\' }

/** Parses values as git writes them: quoted completely or not at all. Returns undefined for other forms. */
const parseValue = (text: string): string | undefined =>
  (QUOTED_VALUE.exec(text) ?? PLAIN_VALUE.exec(text))?.[1]?.replace(/\\(.)/g, (_, letter) => ESCAPES[letter] ?? '')

function writeSetting({ section, subsection, key, value }: GitSetting): string {
  const header = subsection === null ? `[${section}]` : `[${section} "${subsection.replace(/["\\]/g, '\\$&')}"]`
  return value === null ? `${header}\n\t${key}\n` : `${header}\n\t${key} = ${quoteValue(value)}\n`
}

const ESCAPE_SEQUENCES: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\b': '\\b', '"': '\\"', '\\': '\\\\' }

const quoteValue = (value: string): string =>
  `"${value.replace(/[\n\t\b"\\]/g, (letter) => ESCAPE_SEQUENCES[letter] ?? letter)}"`
