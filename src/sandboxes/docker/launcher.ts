import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { tryProgram } from '../kernel/run-program.ts'
import { tarEnd, tarFile } from '../kernel/tar-writer.ts'
import { type Docker, ignoring } from './client.ts'

/**
 * Programs of this machine, with their loader and libraries, that start a sandbox's command. They work in any image,
 * and no file that an agent can change is executed. A volume of the engine holds them, mounted read-only in containers.
 */
export type DockerLauncher = {
  volume: string
  /** An image with nothing but these programs, for our own containers. */
  image: string
  /** Returns the command line that runs one of the programs. */
  words(program: LauncherProgram, ...args: string[]): string[]
}

type LauncherProgram = (typeof PROGRAMS)[number]
const PROGRAMS = ['sh', 'setpriv', 'chmod', 'timeout', 'sleep', 'rm', 'mkdir'] as const

/** Folder in /dev, which is created for each container, so that it does not become part of its files. */
export const LAUNCHER_FOLDER = '/dev/.assay'
const IN_IMAGE = 'launcher'
const NAME_LENGTH = 16

/** Loads the launcher. Returns undefined if this machine is not Linux, or has another architecture than the engine. */
export async function loadLauncher(docker: Docker): Promise<DockerLauncher | undefined> {
  const files = await findFiles()
  const loader = files.find(({ name }) => name.startsWith('ld-'))?.name
  if (loader === undefined) return undefined
  const hash = createHash('sha256')
  for (const { name, content } of files) hash.update(`${name}\n${content.length}\n`).update(content)
  const digest = hash.digest('hex').slice(0, NAME_LENGTH)
  const [image, volume] = [`assay/launcher:${digest}`, `assay-launcher-${digest}`]
  await importFiles(docker, image, files)
  await fillVolume(docker, image, volume)
  const inside = (name: string): string => join(LAUNCHER_FOLDER, name)
  return {
    image,
    volume,
    words: (program, ...args) => [inside(loader), '--library-path', LAUNCHER_FOLDER, inside(program), ...args],
  }
}

type LauncherFile = { name: string; content: Buffer }

async function findFiles(): Promise<LauncherFile[]> {
  const paths = await Promise.all(PROGRAMS.map(findProgram))
  if (paths.includes('')) return []
  const { output } = await tryProgram('ldd', paths)
  const libraries = output.split('\n').flatMap((line) => /(?:=> |^\s*)(\/\S+) \(/.exec(line)?.[1] ?? [])
  const all = new Map([...libraries, ...paths].map((path) => [basename(path), path]))
  return Promise.all([...all].sort().map(async ([name, path]) => ({ name, content: await readFile(path) })))
}

const findProgram = async (name: string): Promise<string> =>
  (await tryProgram('sh', ['-c', `command -v ${name}`])).output.trim()

async function importFiles(docker: Docker, image: string, files: LauncherFile[]): Promise<void> {
  const known = await docker.call('GET', `/images/${image}/json`).catch(ignoring(404))
  if (known !== undefined) return
  const parts = files.flatMap(({ name, content }) => tarFile(join(IN_IMAGE, name), content, 0o755))
  const [repo, tag] = image.split(':')
  const tar = Readable.from([...parts, tarEnd()])
  await text(await docker.open('POST', '/images/create', { query: { fromSrc: '-', repo, tag }, body: tar }))
}

/** Creates the volume. The engine copies the files of the image into a new volume. */
async function fillVolume(docker: Docker, image: string, volume: string): Promise<void> {
  const known = await docker.call('GET', `/volumes/${volume}`).catch(ignoring(404))
  if (known !== undefined) return
  const mount = { Type: 'volume', Source: volume, Target: `/${IN_IMAGE}` }
  const body = { Image: image, Cmd: ['/'], HostConfig: { Mounts: [mount], NetworkMode: 'none' } }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  await docker.call('DELETE', `/containers/${Id}`)
}
