import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import about from '../package.json' with { type: 'json' }
import { ROOT } from './files.ts'

// npm run deb: writes a Debian package to build/, or to the given folder, from the npm package that `npm run package`
// wrote there. It contains Node, PostgreSQL and all dependencies at the versions of the lockfile, and a systemd unit.

const BUILD = resolve(process.argv[2] ?? join(ROOT, 'build'))
/** Root of the files that the package installs. */
const TREE = join(BUILD, 'deb')
const PROGRAM_FOLDER = join(TREE, 'usr/lib/assay')

const archive = readdirSync(BUILD).find((name) => /^assay-.*\.tgz$/.test(name))
if (!archive) throw new Error(`${BUILD} contains no npm package. Run: npm run package`)
const architecture = run('dpkg', ['--print-architecture'], ROOT).trim()
const target = join(BUILD, `${about.name}_${about.version}_${architecture}.deb`)

rmSync(TREE, { recursive: true, force: true })
mkdirSync(PROGRAM_FOLDER, { recursive: true })
installDependencies()
run('tar', ['-xzf', join(BUILD, archive), '--strip-components=1', '--directory', PROGRAM_FOLDER], ROOT)
writeLauncher()
copy('deploy/systemd/assay.service', 'usr/lib/systemd/system/assay.service')
copy('LICENSE', 'usr/share/doc/assay/copyright')
for (const name of ['postinst', 'prerm', 'postrm']) copy(`deploy/debian/${name}`, `DEBIAN/${name}`)
writeFileSync(join(TREE, 'DEBIAN/control'), renderControlFile())
// Files get the time of the commit, so that the same commit always produces the same package.
const commitSeconds = run('git', ['log', '-1', '--format=%ct'], ROOT).trim()
run('dpkg-deb', ['--root-owner-group', '-Zzstd', '-z3', '--build', TREE, target], ROOT, commitSeconds)
rmSync(TREE, { recursive: true })
process.stdout.write(`${target}\n`)

function installDependencies(): void {
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(ROOT, name), join(PROGRAM_FOLDER, name))
  run('npm', ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline'], PROGRAM_FOLDER)
  rmSync(join(PROGRAM_FOLDER, 'package-lock.json'))
}

/** Writes /usr/bin/assay, which starts the program with the Node of the package. */
function writeLauncher(): void {
  const launcher = join(TREE, 'usr/bin/assay')
  mkdirSync(dirname(launcher), { recursive: true })
  const node = `/usr/lib/assay/node_modules/node-linux-${process.arch}/bin/node`
  writeFileSync(launcher, `#!/bin/sh\nexec ${node} /usr/lib/assay/bin/assay "$@"\n`)
  chmodSync(launcher, 0o755)
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(join(TREE, to)), { recursive: true })
  cpSync(join(ROOT, from), join(TREE, to))
}

function renderControlFile(): string {
  const kilobytes = run('du', ['-sk', '--apparent-size', TREE], ROOT).split('\t')[0]
  return `Package: ${about.name}
Version: ${about.version}
Architecture: ${architecture}
Maintainer: The Assay authors <assay@localhost>
Installed-Size: ${kilobytes}
Section: devel
Priority: optional
Depends: libc6, libstdc++6, ca-certificates, git, passwd
Recommends: bubblewrap, openssh-client
Description: compares models and coding agents on your own code
 ${about.description}
 The package contains the service, the command line and a systemd unit.
`
}

function run(program: string, args: string[], cwd: string, sourceDateEpoch?: string): string {
  const env = sourceDateEpoch === undefined ? process.env : { ...process.env, SOURCE_DATE_EPOCH: sourceDateEpoch }
  return execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
}
