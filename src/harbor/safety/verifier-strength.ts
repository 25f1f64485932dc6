import type { TaskOutline } from '../resolve.ts'
import type { TextFile } from './task-parts.ts'

/** Strength of a verifier as estimated from its files. Calibration measures it by trying cheats. */
export type StrengthEstimate = { strength: 'strong' | 'standard' | 'weak'; reason: string }

type Sign = { pattern: RegExp; reason: string }

/** Programs that build or test a project, and so load its files. */
const PROJECT_TOOLS =
  'go +(?:test|build|run|vet)|cargo|rustc|npm|npx|yarn|pnpm|bun|bunx|deno|node|ts-node|tsx|jest|mocha|vitest|ava|make|cmake|ctest|ninja|meson|mvn|mvnw|gradle|gradlew|javac|java|kotlinc?|scala|sbt|dotnet|mix|elixir|rspec|rake|bundle|ruby|php|phpunit|composer|perl|prove|lua|julia|Rscript|ghc|cabal|stack|swift|zig|gcc|g\\+\\+|clang|clang\\+\\+|cc|tox|nox|bats'

/** Signs that tests execute or load the candidate's files, or ask a process that it left running. */
const SIGNS: Record<'sh' | 'py' | 'js', readonly Sign[]> = {
  sh: [
    {
      pattern: new RegExp(
        `(?:^|[;&|(!]|\\b(?:if|then|else|do|exec|time|env|timeout +\\S+|sudo|uv run)\\b) *(?:\\w+=\\S* +)*(${PROJECT_TOOLS})(?= |$)(?! +/tests/)`,
        'm',
      ),
      reason: 'runs a project tool',
    },
    { pattern: /\bpytest\b(?![^\n;|&]*\s"?\/tests\b)(?=[^\n]*(?:$|\s))/m, reason: 'runs pytest on the project' },
    {
      pattern: /\bpython[\d.]* +-m +(?:pytest|unittest)\b/,
      reason: 'runs Python with the working directory on its path',
    },
    {
      pattern:
        /(?:^|[;&|(]|\b(?:bash|sh|source|\.|python[\d.]*|exec)) +"?(?:\.\/|\/(?!tests\b|logs\b|usr\b|bin\b|opt\b|root\/\.local|etc\b|dev\b|tmp\b)[\w.-]+\/)[\w./-]*\.(?:sh|py|pl|rb|js)\b/m,
      reason: 'runs a script of the project',
    },
    { pattern: /(?:^|[;&|(]) *\.\/[\w.-]/m, reason: 'runs a program of the project' },
    { pattern: /\b(?:cp|rsync|mv|install)\b[^\n]*\/tests\/[^\n]*/, reason: 'copies tests into the project' },
    { pattern: /localhost|127\.0\.0\.1|0\.0\.0\.0/, reason: 'asks a process of the candidate' },
  ],
  py: [
    {
      pattern: /\bsubprocess\b|\bos\.(?:system|popen|exec\w*|spawn\w*)\b|\bpexpect\b|\bpty\b|create_subprocess/,
      reason: 'starts programs',
    },
    {
      pattern: /\bimportlib\b|\b__import__\b|\bexec\(|\beval\(|\brunpy\b|\bctypes\b|sys\.path\.(?:insert|append)/,
      reason: 'loads code',
    },
    {
      pattern: /\bpickle\b|\bdill\b|\bjoblib\b|torch\.load|allow_pickle=True|yaml\.(?:unsafe_load|load)\(|load_model\(/,
      reason: 'loads data that can contain code',
    },
    {
      pattern: /localhost|127\.0\.0\.1|0\.0\.0\.0|\bsocket\b|\bparamiko\b|\bselenium\b|\bplaywright\b/,
      reason: 'asks a process of the candidate',
    },
  ],
  js: [{ pattern: /\brequire\(|\bimport\b|\bchild_process\b|\bfetch\(/, reason: 'loads code' }],
}

const LANGUAGES: readonly [RegExp, keyof typeof SIGNS][] = [
  [/\.(?:sh|bash|bats)$|(?:^|\/)[^./]+$/, 'sh'],
  [/\.py$/, 'py'],
  [/\.(?:[cm]?[jt]sx?)$/, 'js'],
]

/** Files of tests in languages that are compiled or loaded together with the project. */
const PROJECT_TESTS = /\.(?:go|rs|java|kt|scala|c|cc|cpp|rb|php|ex|exs|cs|swift|pl|t)$/

/**
 * Estimates the strength of a verifier from its files: `weak` where its tests execute or load what the candidate wrote as
 * the user who writes the reward, `strong` where they do not and the verifier is separate or has a grader, else `standard`.
 */
export function estimateStrength({ steps, metadata }: TaskOutline, texts: readonly TextFile[]): StrengthEstimate {
  const { assay } = metadata
  if (typeof assay === 'object' && !Array.isArray(assay) && assay.grader === true)
    return { strength: 'strong', reason: 'The task declares a grader.' }
  const isSeparate = steps.every(({ verifier }) => verifier.place.mode === 'separate')
  const folders = steps.flatMap(({ verifier }) => verifier.testFolders)
  const tests = texts.filter(({ path }) => folders.some((folder) => path.startsWith(`${folder}/`)))
  for (const test of tests) {
    const reason = findSign(test)
    if (reason) return { strength: 'weak', reason: `${test.path} ${reason}.` }
  }
  return isSeparate
    ? { strength: 'strong', reason: 'The verifier is separate.' }
    : { strength: 'standard', reason: 'The tests only read what the candidate left.' }
}

function findSign({ path, text }: TextFile): string | undefined {
  if (PROJECT_TESTS.test(path)) return 'is compiled or loaded with the project'
  const language = LANGUAGES.find(([pattern]) => pattern.test(path))?.[1]
  const code = language === 'sh' || language === 'py' ? text.replace(/^\s*#.*$/gm, '') : text
  return language && SIGNS[language].find(({ pattern }) => pattern.test(code))?.reason
}
