import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from './base-image.ts'

const INSTALL_TIMEOUT_MS = 10 * 60_000
const INSTALL_SCRIPT = `set -e
[ -d "$1" ] && exit 0
rm -rf "$1.draft"
python3 -m venv --copies "$1.draft"
"$1.draft/bin/python" -m pip install --quiet "$2"
mv "$1.draft" "$1"`

/** Installs a Python package once per machine and returns the path of a Python that can import it. */
export async function installPython(name: string, version: string): Promise<string> {
  const folder = join(await cacheFolder(), `python-${name}-${version}`)
  const args = [`${folder}.lock`, 'sh', '-c', INSTALL_SCRIPT, 'install', folder, `${name}==${version}`]
  await promisify(execFile)('flock', args, { timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64e6 })
  return join(folder, 'bin/python')
}
