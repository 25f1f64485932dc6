import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { findProgram, listLibraries } from '../kernel/run-program.ts'
import { tarEnd, tarFile } from '../kernel/tar-writer.ts'
import type { Image } from '../sandbox.ts'
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
  toCommand(program: LauncherProgram, ...args: string[]): string[]
}

type LauncherProgram = (typeof PROGRAMS)[number]
const PROGRAMS = ['sh', 'setpriv', 'chmod', 'timeout', 'sleep', 'rm', 'mkdir'] as const

/** Folder in /dev, which is created for each container, so that it does not become part of its files. */
export const LAUNCHER_FOLDER = '/dev/.assay'
/** Folder of the programs in the image. */
const IMAGE_FOLDER = 'launcher'
const DIGEST_LENGTH = 16

/** Returns the image of the launcher, from which containers of our own start. */
export const toLauncherImage = ({ image }: DockerLauncher): Image => ({
  digest: image,
  workdir: '/',
  user: '0:0',
  env: {},
  entrypoint: [],
  command: [],
  base: 'image',
})

/** Loads the launcher into the engine. Returns undefined if this machine lacks one of the programs or their loader. */
export async function loadLauncher(docker: Docker): Promise<DockerLauncher | undefined> {
  const files = await readLauncherFiles()
  const loader = files.find(({ name }) => name.startsWith('ld-'))?.name
  if (loader === undefined) return undefined
  const hash = createHash('sha256')
  for (const { name, content } of files) hash.update(`${name}\n${content.length}\n`).update(content)
  const digest = hash.digest('hex').slice(0, DIGEST_LENGTH)
  const [image, volume] = [`assay/launcher:${digest}`, `assay-launcher-${digest}`]
  await importFiles(docker, image, files)
  await fillVolume(docker, image, volume)
  const toMountedPath = (name: string): string => join(LAUNCHER_FOLDER, name)
  return {
    image,
    volume,
    toCommand: (program, ...args) => [
      toMountedPath(loader),
      '--library-path',
      LAUNCHER_FOLDER,
      toMountedPath(program),
      ...args,
    ],
  }
}

type LauncherFile = { name: string; content: Buffer }

/** Reads the programs and their libraries. Returns an empty list if a program is missing. */
async function readLauncherFiles(): Promise<LauncherFile[]> {
  const found = await Promise.all(PROGRAMS.map(findProgram))
  const paths = found.filter((path) => path !== undefined)
  if (paths.length < PROGRAMS.length) return []
  const libraries = await listLibraries(paths)
  const all = new Map([...libraries, ...paths].map((path) => [basename(path), path]))
  return Promise.all([...all].sort().map(async ([name, path]) => ({ name, content: await readFile(path) })))
}

async function importFiles(docker: Docker, image: string, files: LauncherFile[]): Promise<void> {
  const known = await docker.call('GET', `/images/${image}/json`).catch(ignoring(404))
  if (known !== undefined) return
  const parts = files.flatMap(({ name, content }) => tarFile(join(IMAGE_FOLDER, name), content, 0o755))
  const [repo, tag] = image.split(':')
  const tar = Readable.from([...parts, tarEnd()])
  await text(await docker.open('POST', '/images/create', { query: { fromSrc: '-', repo, tag }, body: tar }))
}

/** Creates the volume. The engine copies the files of the image into a new volume. */
async function fillVolume(docker: Docker, image: string, volume: string): Promise<void> {
  const known = await docker.call('GET', `/volumes/${volume}`).catch(ignoring(404))
  if (known !== undefined) return
  const mount = { Type: 'volume', Source: volume, Target: `/${IMAGE_FOLDER}` }
  const body = { Image: image, Cmd: ['/'], HostConfig: { Mounts: [mount], NetworkMode: 'none' } }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  await docker.call('DELETE', `/containers/${Id}`)
}
