import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import about from '../package.json' with { type: 'json' }
import { listProjectFiles, ROOT } from './files.ts'

// `npm run package [folder]`: writes the npm package to build/ or to the given folder, with its SBOM and checksums. The
// package contains JavaScript, because Node does not strip types from installed packages.

const [, , givenFolder] = process.argv
const BUILD = resolve(givenFolder ?? join(ROOT, 'build'))
const PACKAGE_FOLDER = join(BUILD, 'package')

/** Maximum output of a program: the SBOM is large. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024

/** Patterns of files that are copied unchanged. TypeScript is compiled. */
const COPIED_FILES = [
  /^(src|samples|web\/assets)\/.+(?<!\.ts)$/,
  /^(migrations|skills)\//,
  // Documentation that the service shows.
  /^docs\/(?!(?:benchmarks|evidence|map|mutation)\.md$)[a-z-]+\.md$/,
  /^(LICENSE|NOTICE|README\.md|SECURITY\.md|CHANGELOG\.md)$/,
]

// A folder that the caller names is never deleted.
if (givenFolder === undefined) rmSync(BUILD, { recursive: true, force: true })
run(join(ROOT, 'node_modules/.bin/tsc'), ['--project', 'tsconfig.package.json', '--outDir', PACKAGE_FOLDER], ROOT)
for (const path of listProjectFiles().filter((file) => COPIED_FILES.some((pattern) => pattern.test(file)))) copy(path)
run(process.execPath, ['scripts/build-app.ts', '--if-stale'], ROOT)
cpSync(join(ROOT, 'web/app/dist'), join(PACKAGE_FOLDER, 'web/app/dist'), { recursive: true })
writeProgram()
writeFileSync(join(PACKAGE_FOLDER, 'package.json'), `${JSON.stringify(toPackageManifest(), null, 2)}\n`)

const archive = run('npm', ['pack', '--silent', '--pack-destination', BUILD], PACKAGE_FOLDER).trim()
const sbomFile = `${about.name}-${about.version}.cdx.json`
const sbomArguments = [
  'sbom',
  '--sbom-format',
  'cyclonedx',
  '--sbom-type',
  'application',
  '--omit',
  'dev',
  '--package-lock-only',
]
writeFileSync(join(BUILD, sbomFile), run('npm', sbomArguments, ROOT))
const checksums = [archive, sbomFile].map((name) => `${hashFile(join(BUILD, name))}  ${name}\n`)
writeFileSync(join(BUILD, 'SHA256SUMS'), checksums.join(''))
process.stdout.write(checksums.join(''))

function copy(path: string): void {
  mkdirSync(dirname(join(PACKAGE_FOLDER, path)), { recursive: true })
  cpSync(join(ROOT, path), join(PACKAGE_FOLDER, path), { verbatimSymlinks: true })
}

/** Writes bin/assay, which imports the compiled commands. */
function writeProgram(): void {
  const program = join(PACKAGE_FOLDER, 'bin/assay')
  mkdirSync(dirname(program), { recursive: true })
  writeFileSync(program, readFileSync(join(ROOT, 'bin/assay'), 'utf8').replace('../cli/main.ts', '../cli/main.js'))
  chmodSync(program, 0o755)
}

/** Returns package.json without the fields that matter only for development. */
function toPackageManifest(): object {
  const { private: _, scripts: __, devDependencies: ___, ...published } = about
  return published
}

function run(program: string, args: string[], cwd: string): string {
  return execFileSync(program, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: OUTPUT_BYTES_MAX,
  })
}

function hashFile(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}
