import { posix } from 'node:path'
import { parseDockerfile } from '../dockerfile.ts'
import { isWithin } from '../paths.ts'
import { createReport } from '../report.ts'
import type { TaskOutline } from '../resolve.ts'
import { MAIN_SERVICE, SLEEP_COMMAND } from '../settings.ts'
import type { Environment, TaskStep, Template } from '../task.ts'
import { CODE_SIGNS, findUnknownModule } from './code-signs.ts'
import { findMeasuringHook } from './collect-hooks.ts'
import { findSubmittedUse, nameInputs } from './python-uses.ts'
import { findUnsafeCommand } from './read-only-script.ts'
import type { TextFile } from './view.ts'

/** Strength of a verifier as far as its files show it. Calibration lowers it where a cheat passes. */
export type StrengthEstimate = { strength: 'strong' | 'standard' | 'weak'; reason: string }

/**
 * Estimates the strength of a verifier from its files: `weak` unless they show that its tests only read what the agent
 * left, `strong` if they do and the verifier is separate or the task has a grader, else `standard`.
 */
export function estimateStrength(outline: TaskOutline, texts: readonly TextFile[]): StrengthEstimate {
  const listPaths = (step: TaskStep): string[] => readSettings(outline, step, texts).submission
  const weakness = findWeakness(outline, texts, listPaths) ?? findExposedSetting(outline, texts)
  if (weakness !== undefined) return { strength: 'weak', reason: weakness }
  if (declaresGrader(outline)) return { strength: 'strong', reason: 'The task declares a grader.' }
  return outline.steps.every(({ verifier }) => verifier.sandbox.mode === 'separate')
    ? { strength: 'strong', reason: 'The verifier is separate, and its tests only read.' }
    : { strength: 'standard', reason: 'The tests only read what the agent left.' }
}

/** Returns true if a task declares `[metadata.assay] grader = true`. */
export function declaresGrader({ metadata: { assay } }: Pick<TaskOutline, 'metadata'>): boolean {
  return typeof assay === 'object' && !Array.isArray(assay) && assay.grader === true
}

/** Returns the folders of a task that have the files of a step's tests. */
export const listTestFolders = ({ verifier: { testFolders, sandbox } }: TaskStep): string[] =>
  testFolders.length === 0 && sandbox.mode === 'separate' ? [sandbox.environment.folder] : testFolders

/**
 * Returns the reason why tests may execute or load what the agent wrote as the user who writes the reward, or undefined if
 * their files show that they only read. Every command of a shell script must be known to only read. Python may import only
 * modules that are known to read data. Python and JavaScript are also searched for signs of code execution. A grader runs
 * the agent's code as another user, which only its shell scripts may do.
 * `listSubmission` returns the paths of the agent's files that a step's tests see.
 */
export function findWeakness(
  outline: Pick<TaskOutline, 'steps' | 'metadata' | 'environment'>,
  texts: readonly TextFile[],
  listSubmission: (step: TaskStep) => readonly string[],
): string | undefined {
  const volume = findSharedVolume(outline)
  if (volume !== undefined) return `The volume ${volume} brings files of the agent to the tests without a check.`
  const hasGrader = declaresGrader(outline)
  for (const step of outline.steps) {
    const reason = findStepWeakness(step, texts, { hasGrader, submission: listSubmission(step) })
    if (reason !== undefined) return reason
  }
  return undefined
}

function findStepWeakness(
  step: TaskStep,
  texts: readonly TextFile[],
  context: Pick<SignContext, 'hasGrader' | 'submission'>,
): string | undefined {
  const hook = findMeasuringHook(step.verifier.collect)
  if (hook) return `The hook ${hook.command.slice(0, 80)} measures in the environment of the agent, which can forge it.`
  const folders = listTestFolders(step)
  const tests = texts.filter(({ path }) => folders.some((folder) => path.startsWith(`${folder}/`)))
  const isVerifierFile = (path: string): boolean =>
    folders.some((folder) =>
      tests.some((test) => test.path === `${folder}${path.slice('/tests'.length)}` && languageOf(test)),
    )
  const scriptLength = tests.filter((test) => languageOf(test) === 'sh').reduce((sum, { text }) => sum + text.length, 0)
  if (scriptLength > SCRIPTS_LENGTH_MAX) return 'The shell scripts of the tests are too long to be checked.'
  if (!tests.some(({ path }) => path === step.verifier.testScript || path.endsWith('/test.sh')))
    return 'The test script is part of an image and cannot be read.'
  for (const test of tests) {
    const otherScripts = tests.filter((other) => other !== test && languageOf(other) === 'sh').map(({ text }) => text)
    const reason = findSign(test, { ...context, isVerifierFile, otherScripts }, tests)
    if (reason !== undefined) return `${test.path} ${reason}.`
  }
  return undefined
}

/**
 * Returns the path of a named volume that the agent can write to and that the verifier mounts too. Links in it, which the
 * agent or a service may create at any time, can lead to the expected answer.
 */
function findSharedVolume({ environment, steps }: Pick<TaskOutline, 'steps' | 'environment'>): string | undefined {
  if (steps.every(({ verifier }) => verifier.sandbox.mode === 'separate')) return undefined
  const main = environment.compose?.services.find(({ name }) => name === MAIN_SERVICE)
  return main?.mounts.find((mount) => mount.kind === 'volume' && mount.name !== null && !mount.readOnly)?.target
}

/** Maximum length of a step's shell scripts. The time for their check grows with its square. */
const SCRIPTS_LENGTH_MAX = 16_384

/** Variables that hold data for tests and agents. Programs do not search them for code or settings. */
const DATA_VARIABLE =
  /^(?:PWD|OLDPWD|HOME|TMPDIR|(?:APP|DATA|INPUT|OUTPUT|PROJECT|REPO|RESULT|RESULTS|TASK|WORK|WORKSPACE)(?:_?(?:DIR|ROOT|FILE|FOLDER))?)$/
/** Variables in which an empty or relative entry means the working directory. */
const SEARCH_VARIABLE = /^(?:PATH|\w*LIBRARY_PATH|PYTHONPATH|NODE_PATH|CLASSPATH|PERL5LIB|RUBYLIB|GEM_PATH|LUA_PATH)$/

/**
 * Returns the name of an environment variable through which programs of the verifier find code or settings in the
 * submission: every variable that names a path of it, except those that are known to hold data.
 */
function findExposedVariable(env: Readonly<Record<string, string>>, submission: readonly string[]): string | undefined {
  const isExposed = (path: string): boolean => submission.some((folder) => isWithin(path, folder))
  return Object.entries(env).find(([name, value]) => {
    if (DATA_VARIABLE.test(name) || value === '') return false
    if (SEARCH_VARIABLE.test(name) && value.split(':').some((entry) => !entry.startsWith('/'))) return true
    return value.split(/[:;,\s="']+/).some((entry) => entry.startsWith('/') && isExposed(normalizePath(entry)))
  })?.[0]
}

/**
 * Returns a command that the environment runs by itself, as an entrypoint or a healthcheck, and that may execute files of
 * the submission: it names one, or a path that is relative to the working directory, or it runs in the submission, where
 * programs find files by themselves, such as a makefile. Commands that only read are left out.
 */
const findExposedCommand = (
  commands: readonly string[],
  { submission, workdir }: { submission: readonly string[]; workdir: string },
): string | undefined => {
  const runsInside = submission.some((folder) => isWithin(workdir, folder))
  return commands.find(
    (command) =>
      (runsInside && mayExecute(command, SERVERS)) || (mayExecute(command) && namesSubmission(command, submission)),
  )
}

const namesSubmission = (command: string, submission: readonly string[]): boolean =>
  command.split(/[\s;&|()"'=<>]+/).some((word) => {
    if (/^\.{1,2}\/|^[\w-]+\.(?:sh|py|js|rb|pl)$/.test(word)) return true
    return word.startsWith('/') && submission.some((folder) => isWithin(normalizePath(word), folder))
  })

/** Servers, and programs that ask them, which read no code or settings from the current or the home directory. */
const SERVERS: ReadonlySet<string> = new Set(
  'nginx httpd apache2 redis-server redis-cli postgres pg_isready mysqladmin mongod memcached sshd cron crond curl wget nc'.split(
    ' ',
  ),
)

const mayExecute = (command: string, harmless: ReadonlySet<string> = new Set()): boolean =>
  findUnsafeCommand(command, { isVerifierFile: () => false, hasGrader: false, submission: [], harmless }) !== undefined

const normalizePath = (path: string): string =>
  new URL(`file://${path.replace(/[?#%]/g, '_')}`).pathname.replace(/\/+/g, '/')

/** Checks what the files of a task set. Calibration checks the environment of the built image. */
function findExposedSetting(outline: TaskOutline, texts: readonly TextFile[]): string | undefined {
  for (const step of outline.steps) {
    const { environment, env, submission, workdir } = readSettings(outline, step, texts)
    const exposure = findExposure(env, listCommands(environment, step), { submission, workdir })
    if (exposure !== undefined) return exposure
  }
  return undefined
}

/** Folder that every separate verifier gets. */
const ARTIFACTS_FOLDER = '/logs/artifacts'

type StepSettings = { environment: Environment; env: Record<string, string>; submission: string[]; workdir: string }

/** Reads the environment of a step's verifier, and the paths of the agent's files in it, as far as files name them. */
function readSettings(outline: TaskOutline, step: TaskStep, texts: readonly TextFile[]): StepSettings {
  const { sandbox, env } = step.verifier
  const readImage = ({ dockerfile }: Environment) => parseImageSettings(texts.find(({ path }) => path === dockerfile))
  const environment = sandbox.mode === 'separate' ? sandbox.environment : outline.environment
  const workdir = outline.environment.workdir ?? readImage(outline.environment).workdir ?? '/'
  const paths =
    sandbox.mode === 'separate'
      ? [...step.artifacts.map(({ source }) => posix.resolve(workdir, source)), ARTIFACTS_FOLDER]
      : [workdir]
  const declared = [...environment.env, ...env].map(({ name, value }) => [name, toText(value)])
  return {
    environment,
    env: { ...readImage(environment).env, ...Object.fromEntries(declared) },
    submission: paths.filter((path) => path !== '/'),
    workdir: environment.workdir ?? readImage(environment).workdir ?? '/',
  }
}

/** Returns the variable or the command that lets the verifier's environment execute files of the submission. */
export function findExposure(
  env: Readonly<Record<string, string>>,
  commands: readonly string[],
  context: { submission: readonly string[]; workdir: string },
): string | undefined {
  if (env.PATH?.split(':').some((entry) => normalizePath(entry).endsWith('/shims')))
    return "The variable PATH of the verifier's environment names shims, which search the current directory for versions."
  const name = findExposedVariable(env, context.submission)
  if (name !== undefined) return `The variable ${name} of the verifier's environment names a path in the submission.`
  const command = findExposedCommand(commands, context)
  return command && `The verifier's environment runs ${command.slice(0, 80)}, which the submission can change.`
}

/** Lists the commands that an environment runs: healthchecks, and the entrypoint with its command. */
export function listCommands(
  { healthcheck, compose }: Environment,
  step: Pick<TaskStep, 'healthcheck'>,
  imageEntrypoint: readonly string[] = [],
): string[] {
  const main = compose?.services.find(({ name }) => name === MAIN_SERVICE)
  const entrypoint = main?.entrypoint?.map(toText) ?? imageEntrypoint
  const command = main?.command?.map(toText) ?? (entrypoint.length > 0 ? SLEEP_COMMAND : [])
  const started = [...entrypoint, ...command]
  const check = main?.healthcheck && main.healthcheck.kind !== 'none' ? main.healthcheck : undefined
  const checked = check?.kind === 'exec' ? quoteWords(check.test) : check?.test[0]
  return [healthcheck?.command ?? '', step.healthcheck?.command ?? '', checked ?? '', quoteWords(started)].filter(
    (text) => text !== '',
  )
}

const quoteWords = (words: readonly string[]): string =>
  words.map((word) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ')

const toText = (template: Template): string => template.filter((part) => typeof part === 'string').join('')

/** Returns the variables and the working directory that a Dockerfile sets in its last stage. */
function parseImageSettings(file: TextFile | undefined): { env: Record<string, string>; workdir: string | undefined } {
  if (!file) return { env: {}, workdir: undefined }
  const { path, text } = file
  const instructions =
    parseDockerfile(text.replaceAll(/\r\n?/g, '\n'), path, createReport()).stages.at(-1)?.instructions ?? []
  const pairs = instructions.filter(({ keyword }) => keyword === 'ENV').flatMap((instruction) => instruction.pairs)
  return {
    // A variable in a value refers to the base image, whose paths are not the submission's, and is replaced by `/`.
    env: Object.fromEntries(
      pairs.map(({ name, value }) => [name, (value ?? '').replaceAll(/\$\{?\w+[^:\s}]*\}?/g, '/')]),
    ),
    workdir: instructions.findLast(({ keyword, text: folder }) => keyword === 'WORKDIR' && folder.startsWith('/'))
      ?.text,
  }
}

type TestLanguage = 'sh' | 'py' | 'js'

const LANGUAGES: readonly [RegExp, TestLanguage][] = [
  [/\.(?:sh|bash)$/, 'sh'],
  [/\.py$/, 'py'],
  [/\.(?:[cm]?[jt]sx?)$/, 'js'],
]
const INTERPRETERS: readonly [RegExp, TestLanguage][] = [
  [/^#!.*\b(?:ba|da)?sh\b/, 'sh'],
  [/^#!.*\bpython[\d.]*\b/, 'py'],
  [/^#!.*\bnode\b/, 'js'],
]

const languageOf = ({ path, text }: TextFile): TestLanguage | undefined =>
  (LANGUAGES.find(([pattern]) => pattern.test(path)) ?? INTERPRETERS.find(([pattern]) => pattern.test(text)))?.[1]

/** Files of tests in languages that are compiled or loaded together with the project. */
const PROJECT_TESTS = /\.(?:go|rs|java|kt|scala|c|cc|cpp|rb|php|ex|exs|cs|swift|pl|t|bats)$/

const PYTEST_SETTINGS = /(?:^|\/)(?:\.?pytest\.ini|pyproject\.toml|tox\.ini|setup\.cfg)$/
/** Settings of pytest that name folders or modules to load. */
const PYTEST_LOADS = /\b(?:pythonpath|addopts|python_paths|testpaths|confcutdir|required_plugins)\b/

type SignContext = Parameters<typeof findUnsafeCommand>[1]

/** Lists the names under which Python tests import each other. */
const listModules = (tests: readonly TextFile[]): ReadonlySet<string> =>
  new Set(tests.flatMap(({ path }) => (path.endsWith('.py') ? path.slice(0, -'.py'.length).split('/') : [])))

function findSign(test: TextFile, context: SignContext, tests: readonly TextFile[]): string | undefined {
  const language = languageOf(test)
  if (language === 'sh') return test.isWhole ? findUnsafeCommand(test.text, context) : TOO_LONG
  if (context.hasGrader) return language && findGraderSign(test, language, context.submission, tests)
  if (PYTEST_SETTINGS.test(test.path) && PYTEST_LOADS.test(test.text)) return 'makes pytest load code'
  if (PROJECT_TESTS.test(test.path)) return 'is compiled or loaded with the project'
  return language && findCodeSign(test, language, { tests, submission: context.submission })
}

function findGraderSign(
  test: TextFile,
  language: 'py' | 'js',
  submission: readonly string[],
  tests: readonly TextFile[],
): string | undefined {
  return namesReplaceableFile(test.text, submission)
    ? 'reads files that programs of the submission can replace by links'
    : findCodeSign(test, language, { tests, submission })
}

/** Returns true if code of a grader names files that programs of the submission may be able to write. */
const namesReplaceableFile = (text: string, submission: readonly string[]): boolean =>
  [...submission, '/tmp'].some((folder) => text.includes(folder)) || /(?:\bopen|Path)\(\s*[rbf]?['"](?!\/)/.test(text)

const TOO_LONG = 'is too long to be read'

function findCodeSign(
  { path, text, isWhole }: TextFile,
  language: 'py' | 'js',
  { tests, submission }: { tests: readonly TextFile[]; submission: readonly string[] },
): string | undefined {
  if (!isWhole) return TOO_LONG
  const code = language === 'py' ? text.replace(/^\s*#.*$/gm, '') : text
  const sign = CODE_SIGNS[language].find(
    ({ pattern, together, unless }) => pattern.test(code) && (together?.test(code) ?? true) && !unless?.test(code),
  )?.reason
  if (sign !== undefined || language === 'js') return sign
  const unknown = explainUnknownModule(findUnknownModule(code, listModules(tests)))
  const others = tests.filter((test) => test.path !== path && test.path.endsWith('.py') && test.isWhole)
  const scripts = tests.filter((test) => languageOf(test) === 'sh').map((test) => test.text)
  const withInputs = (test: Pick<TextFile, 'path' | 'text'>): string =>
    withImports(test.path, nameInputs(test, submission, scripts), tests)
  return unknown ?? findSubmittedUse(withInputs({ path, text: code }), submission, others.map(withInputs))
}

/** Puts the functions and fixtures of other files of the tests in front of code that uses them. */
function withImports(path: string, code: string, tests: readonly TextFile[]): string {
  const imported = tests.filter((test) => {
    const name = /([\w-]+)\.py$/.exec(test.path)?.[1]
    if (name === undefined || test.path === path || !test.isWhole) return false
    return name === 'conftest' || new RegExp(`^\\s*(?:from|import)\\s[^\\n]*\\b${name}\\b`, 'm').test(code)
  })
  const names = imported.map((test) => /([\w-]+)\.py$/.exec(test.path)?.[1] ?? '')
  const unqualified = names.reduce((text, name) => text.replaceAll(new RegExp(`(?<![\\w.])${name}\\.`, 'g'), ''), code)
  return [...imported.map(({ text }) => text), unqualified].join('\n')
}

const explainUnknownModule = (name: string | undefined): string | undefined =>
  name && `imports ${name}, which is not known to only read data`
