import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, readlink } from 'node:fs/promises'
import { posix } from 'node:path'
import { z } from 'zod'
import { findInside } from '../kernel/inside.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { ImageSettings } from './image-settings.ts'
import { fullName } from './image-store.ts'

/** An image as other tools keep it: the tars of its layers, the lowest first, and how it wants to be run. */
export type ImageArchive = { layers: string[]; settings: z.infer<typeof ImageSettings> }

const Descriptor = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  platform: z.object({ os: z.string(), architecture: z.string() }).nullish(),
})
const Index = z.object({ manifests: z.array(Descriptor) })
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) })
const Saved = z.array(
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
)
const Config = z.object({ os: z.string().default('linux'), architecture: z.string(), config: ImageSettings.nullish() })

const ARCHITECTURE: Partial<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

/** Reads what `docker save` wrote, or an OCI layout. Undefined when the folder is neither. */
export async function readArchive(folder: string, name: string | undefined): Promise<ImageArchive | undefined> {
  const saved = await readJson(folder, 'manifest.json')
  const images = Saved.safeParse(saved)
  if (images.success) return readSaved(folder, images.data, name)
  if ((await readJson(folder, 'oci-layout')) === undefined) return undefined
  return readLayout(folder, Index.parse(await readJson(folder, 'index.json')))
}

async function readSaved(folder: string, images: z.infer<typeof Saved>, name = ''): Promise<ImageArchive> {
  const named = images.filter(({ RepoTags }) => RepoTags?.some((tag) => fullName(tag) === fullName(name)))
  const [image, second] = images.length === 1 ? images : named
  if (!image || second) {
    const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
    throw new SandboxUnsupported(`The archive has several images: use the name of one of them, ${tags.join(', ')}.`)
  }
  const layers = await Promise.all(image.Layers.map((path) => fileIn(folder, path)))
  return { layers, settings: settingsIn(await readJson(folder, image.Config)) }
}

async function readLayout(folder: string, index: z.infer<typeof Index>): Promise<ImageArchive> {
  const fitting = index.manifests.filter(({ platform }) => !platform || isOurs(platform))
  const [first, second] = fitting
  if (!first || second) throw new SandboxUnsupported(`The layout has ${fitting.length} images for this machine.`)
  const found = await readBlob(folder, first.digest)
  const inner = Index.safeParse(found)
  if (inner.success) return readLayout(folder, inner.data)
  const { config, layers } = Manifest.parse(found)
  return {
    layers: await Promise.all(layers.map(({ digest }) => blobIn(folder, digest))),
    settings: settingsIn(await readBlob(folder, config.digest)),
  }
}

const isOurs = ({ os, architecture }: { os: string; architecture: string }): boolean =>
  os === 'linux' && architecture === ARCHITECTURE[process.arch]

function settingsIn(value: unknown): z.infer<typeof ImageSettings> {
  const { config, ...platform } = Config.parse(value)
  if (isOurs(platform)) return config ?? {}
  throw new SandboxUnsupported(`The image is for ${platform.os}/${platform.architecture}, which this machine is not.`)
}

async function readBlob(folder: string, digest: string): Promise<unknown> {
  return JSON.parse(await readFile(await blobIn(folder, digest), 'utf8'))
}

/** Returns the path of a blob after verifying its digest. */
async function blobIn(folder: string, digest: string): Promise<string> {
  const path = await fileIn(folder, `blobs/${digest.replace(':', '/')}`)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  if (`sha256:${hash.digest('hex')}` === digest) return path
  throw new SandboxUnavailable(`The archive is damaged: ${digest} holds something else.`)
}

async function readJson(folder: string, path: string): Promise<unknown> {
  const place = await findInside(folder, path)
  if (!place?.stats.isFile()) return undefined
  return JSON.parse(await readFile(place.path, 'utf8'))
}

/** Older archives have a layer that is there twice as a link to the first. */
async function fileIn(folder: string, path: string): Promise<string> {
  const place = await findInside(folder, path)
  const target = place?.stats.isSymbolicLink() ? posix.join(posix.dirname(path), await readlink(place.path)) : path
  const found = target === path ? place : await findInside(folder, target)
  if (found?.stats.isFile()) return found.path
  throw new SandboxUnavailable(`The archive is damaged: it has no ${path}.`)
}
