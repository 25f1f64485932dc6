import { execFile } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { type DebianRoot, openDebianRoot } from './debian-root.ts'

/** Opens a Debian that has only Node with npm, bubblewrap and these packages, and no network. */
export async function openBareMachine(...packages: string[]): Promise<DebianRoot> {
  const root = await openDebianRoot('bubblewrap', 'libstdc++6', ...packages)
  const npm = dirname(dirname(findProgram('npm')))
  await copyFolder(findProgram('node'), join(root.folder, 'usr/bin/node'))
  await copyFolder(npm, join(root.folder, 'usr/lib/node_modules/npm'))
  await root.shell('ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/bin/npm')
  return root
}

/** Finds a program of the machine, not of this project. */
function findProgram(name: string): string {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'))
  const path = folders.map((folder) => join(folder, name)).find(existsSync)
  if (path === undefined) throw new Error(`The machine has no ${name}.`)
  return realpathSync(path)
}

/** Copies with hard links where the file system allows it. */
export async function copyFolder(from: string, to: string): Promise<void> {
  const copy = 'mkdir -p "$(dirname "$2")" && cp -a --link "$1" "$2" || { rm -rf "$2" && cp -a "$1" "$2"; }'
  await promisify(execFile)('sh', ['-c', copy, 'copy', from, to])
}

const TIME_DEMO = `set -e
started=$(date +%s%N)
tail -f /dev/null | script --quiet --flush --command "$DEMO" /tmp/shown > /dev/null &
until url=$(grep -o 'The result: http[^[:space:]]*' /tmp/shown); do
  if ! kill -0 $!; then cat /tmp/shown; exit 1; fi
  sleep 0.1
done
node -e 'fetch(process.argv[1]).then(async (page) => { if (!page.ok || !(await page.text()).includes("<div id=")) process.exit(1) })' "\${url#The result: }"
echo "seconds: $(( ($(date +%s%N) - started) / 1000000000 ))"
cat /tmp/shown`

/** Runs the demo on a terminal. Returns its output and the seconds until the page with the result was there. */
export async function timeDemo(root: DebianRoot, folder: string, command: string) {
  const { code, output } = await root.shell(`cd ${folder} && export DEMO='${command}' && ${TIME_DEMO}`)
  if (code !== 0) throw new Error(`The demo ended with ${code}:\n${output}`)
  return { seconds: Number(/seconds: (\d+)/.exec(output)?.[1]), output }
}
