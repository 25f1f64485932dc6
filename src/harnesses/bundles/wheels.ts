import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { arch } from 'node:process'
import { text } from 'node:stream/consumers'
import { HarnessUnfit } from '../harness.ts'
import { ANY_PYTHON, listWheels, type Wheel, type WheelLock } from './bundle.ts'
import { makeReadOnly, waitForExitCode } from './unpack.ts'

type WheelOptions = { tree: string; archives: string; signal: AbortSignal; onFetched: (done: number) => void }

/**
 * Installs wheels with pip, using the pip configuration (index, proxy, cache) of the current user. pip verifies every
 * digest and executes no code of a package, because a wheel has no install script.
 */
export async function installWheels(lock: WheelLock, options: WheelOptions): Promise<void> {
  const { tree, archives, signal, onFetched } = options
  let done = 0
  onFetched(done)
  for (const [folder, wheels] of Map.groupBy(listWheels(lock), (wheel) => wheel.path)) {
    const requirements = join(archives, `${folder}.txt`)
    await writeFile(requirements, wheels.map(toRequirement).join(''))
    const [oldest = ''] = lock.pythons
    // The folder is a Python version, or that of wheels for any version, which must suit the oldest one too.
    const python = folder === ANY_PYTHON ? oldest : folder
    await pipInstall(
      lock.package,
      [...buildPipArgs(python), '--target', join(tree, folder), '-r', requirements],
      signal,
    )
    done += wheels.length
    onFetched(done)
  }
  await makeReadOnly(tree)
}

const toRequirement = ({ name, version, sha256 }: Wheel): string => `${name}==${version} --hash=sha256:${sha256}\n`

/** Minor versions of glibc 2 whose wheels are accepted, as in `manylinux_2_28`. */
const GLIBC_MINOR = { oldest: 5, newest: 28 }
const MACHINES: Record<string, string> = { x64: 'x86_64', arm64: 'aarch64' }

/** Selects wheels for the given Python on Linux with glibc, whatever Python runs pip. */
function buildPipArgs(python: string): string[] {
  const machine = MACHINES[arch] ?? arch
  const minors = Array.from({ length: GLIBC_MINOR.newest - GLIBC_MINOR.oldest + 1 }, (_, at) => GLIBC_MINOR.newest - at)
  const systems = [...minors.map((minor) => `manylinux_2_${minor}`), 'manylinux2014', 'manylinux2010', 'manylinux1']
  return [
    ...['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check', '--no-user', '--no-compile'],
    ...[
      '--no-deps',
      '--ignore-requires-python',
      '--require-hashes',
      '--only-binary',
      ':all:',
      '--implementation',
      'cp',
      '--python-version',
      python,
    ],
    ...systems.flatMap((system) => ['--platform', `${system}_${machine}`]),
  ]
}

async function pipInstall(program: string, args: string[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const child = spawn('python3', args, { stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' })
  const [errors, code] = await Promise.all([text(child.stderr), waitForExitCode(child)])
  signal.throwIfAborted()
  if (code === 127 || errors.includes('No module named pip'))
    throw new HarnessUnfit(
      'pip was not found. Install python3 and pip to install harnesses that are written in Python.',
    )
  if (/DO NOT MATCH THE HASHES/.test(errors))
    throw new HarnessUnfit(`A wheel of ${program} does not match the lock file and was not installed.`)
  if (code !== 0) throw new HarnessUnfit(`pip could not install ${program}. ${summarizeErrors(errors)}`)
}

const SUMMARY_LENGTH_MAX = 400

const summarizeErrors = (errors: string): string =>
  errors
    .split('\n')
    .flatMap((line) => /^ERROR: (.+)/.exec(line)?.[1] ?? [])
    .join(' ')
    .slice(0, SUMMARY_LENGTH_MAX)
