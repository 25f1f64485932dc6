import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import about from '../package.json' with { type: 'json' }
import { listProjectFiles, ROOT } from './files.ts'

// npm run package: writes the npm package to build/, or to the given folder, with its SBOM and checksums. Node does not
// strip types from packages, so the package contains JavaScript.

const [, , given] = process.argv
const BUILD = resolve(given ?? join(ROOT, 'build'))
const FOLDER = join(BUILD, 'package')

/** Files that are copied as they are. All TypeScript is compiled. */
const COPIED = [
  /^(src|samples|web\/assets)\/.+(?<!\.ts)$/,
  /^(migrations|skills)\//,
  // Documentation that the service shows.
  /^docs\/(?!(?:benchmarks|evidence|map|mutation)\.md$)[a-z]+\.md$/,
  /^(LICENSE|NOTICE|README\.md|SECURITY\.md|CHANGELOG\.md)$/,
]

// A folder that the caller names is never deleted.
if (given === undefined) rmSync(BUILD, { recursive: true, force: true })
run(join(ROOT, 'node_modules/.bin/tsc'), ['--project', 'tsconfig.package.json', '--outDir', FOLDER], ROOT)
for (const path of listProjectFiles().filter((file) => COPIED.some((pattern) => pattern.test(file)))) copy(path)
run(process.execPath, ['scripts/build-app.ts', '--if-stale'], ROOT)
cpSync(join(ROOT, 'web/app/dist'), join(FOLDER, 'web/app/dist'), { recursive: true })
writeProgram()
writeFileSync(join(FOLDER, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`)

const archive = run('npm', ['pack', '--silent', '--pack-destination', BUILD], FOLDER).trim()
const components = `${about.name}-${about.version}.cdx.json`
const sbom = [
  'sbom',
  '--sbom-format',
  'cyclonedx',
  '--sbom-type',
  'application',
  '--omit',
  'dev',
  '--package-lock-only',
]
writeFileSync(join(BUILD, components), run('npm', sbom, ROOT))
const checksums = [archive, components].map((name) => `${sha256(join(BUILD, name))}  ${name}\n`)
writeFileSync(join(BUILD, 'SHA256SUMS'), checksums.join(''))
process.stdout.write(checksums.join(''))

function copy(path: string): void {
  mkdirSync(dirname(join(FOLDER, path)), { recursive: true })
  cpSync(join(ROOT, path), join(FOLDER, path), { verbatimSymlinks: true })
}

/** Writes bin/assay, which imports the compiled commands. */
function writeProgram(): void {
  const program = join(FOLDER, 'bin/assay')
  mkdirSync(dirname(program), { recursive: true })
  writeFileSync(program, readFileSync(join(ROOT, 'bin/assay'), 'utf8').replace('../cli/main.ts', '../cli/main.js'))
  chmodSync(program, 0o755)
}

function manifest(): object {
  const { private: _, scripts: __, devDependencies: ___, ...published } = about
  return published
}

function run(program: string, args: string[], cwd: string): string {
  return execFileSync(program, args, {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
  })
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}
