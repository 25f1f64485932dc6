import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { styleText } from 'node:util'
import { listMissingPaths } from './doc-paths.ts'
import { listProjectFiles, ROOT } from './files.ts'
import { listForeignLicences } from './licences.ts'
import { lintOpenApi } from './lint-openapi.ts'
import { listProseFindings, type ProseLimits } from './prose.ts'
import { listSharedTables, listStrayQueries } from './queries.ts'
import { listLongFiles } from './sizes.ts'

/** A check. `run` returns the findings as text, which is empty if the check passes. */
type Check = { name: string; run: () => Promise<string> }

const CODE_FOLDERS = ['src', 'cli', 'web', 'test', 'bench', 'scripts', 'samples/provider', 'sdk'].filter((folder) =>
  existsSync(join(ROOT, folder)),
)
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const existsInProject = (path: string): boolean => existsSync(join(ROOT, path))

const PROSE_LIMITS: ProseLimits = {
  flaggedCommentPercent: 1,
  vagueTypes: 0,
  uniqueTypePercent: 98,
  literalSpreads: 0,
}

const CHECKS: Check[] = [
  command('format and lint', 'biome', 'ci', '--colors=off', '--error-on-warnings'),
  command('types', 'tsc', '--noEmit'),
  command('types of the app', 'tsc', '--noEmit', '--project', 'web/app'),
  command('imports', 'depcruise', '--config', '.dependency-cruiser.cjs', ...CODE_FOLDERS),
  command('unused code', 'knip', '--no-progress'),
  // Rules that need types. Biome has no stable rules of this kind yet.
  command(
    'promises and switches',
    'oxlint',
    '--type-aware',
    '--allow=all',
    '--deny=typescript/no-floating-promises',
    '--deny=typescript/switch-exhaustiveness-check',
    ...CODE_FOLDERS,
  ),
  command('generated files', 'node', 'scripts/generate.ts', '--check'),
  { name: 'OpenAPI', run: async () => (await lintOpenApi(join(ROOT, 'docs/openapi.json'))).join('\n') },
  list('sizes', () => listLongFiles(listProjectFiles(), read)),
  list('prose and names', () => listProseFindings(listProjectFiles(), read, PROSE_LIMITS)),
  list('queries', () => [...listStrayQueries(listProjectFiles(), read), ...listSharedTables(listProjectFiles(), read)]),
  list('paths in docs', () =>
    listProjectFiles()
      .filter((path) => path.endsWith('.md'))
      .flatMap((page) => listMissingPaths(page, read(page), existsInProject)),
  ),
  list('licences', () => listForeignLicences(read('package-lock.json'))),
]

/** Creates a check that runs a program. Its output is the findings if it fails. */
function command(name: string, program: string, ...args: string[]): Check {
  const run = async (): Promise<string> => {
    const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
    const child = spawn(program, args, { cwd: ROOT, env: { ...process.env, PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
    return code === 0 ? '' : `${out}${err}`.trim() || `${program} ended with code ${code}.`
  }
  return { name, run }
}

/** Creates a check from a function that lists findings. */
function list(name: string, listFindings: () => string[]): Check {
  return { name, run: async () => listFindings().join('\n') }
}

/** Runs a check and prints its findings. Returns true if it passed. */
async function runCheck({ name, run }: Check): Promise<boolean> {
  const started = performance.now()
  const findings = await run().catch((error: unknown) => (error instanceof Error ? error.message : String(error)))
  const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(6)
  console.log(`${findings === '' ? styleText('green', '  ok  ') : styleText('red', 'failed')} ${seconds} s  ${name}`)
  if (findings !== '') console.log(`${findings.replaceAll(/^/gm, '    ')}\n`)
  return findings === ''
}

const passed = await Promise.all(CHECKS.map(runCheck))
if (passed.includes(false)) process.exitCode = 1
