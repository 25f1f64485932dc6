import { type Docker, ignoring } from './client.ts'

/** A file, folder or link of a container. `link` is the target of a link. */
export type ContainerPath = { isFolder: boolean; isLink: boolean; isFile: boolean; bytes: number; link: string }

/** Bits of Go's file modes. */
const GO_FOLDER = 2 ** 31
const GO_LINK = 2 ** 27
/** Folder, link, device, pipe, socket, character device and irregular. */
const GO_TYPES = [31, 27, 26, 25, 24, 21, 19].map((bit) => 2 ** bit)

/**
 * Asks the engine about a path of a container. A link in the last part of the path is not followed, links before it are.
 * Returns undefined when there is nothing.
 */
export async function statIn(docker: Docker, containerId: string, path: string): Promise<ContainerPath | undefined> {
  const answer = await docker
    .open('HEAD', `/containers/${containerId}/archive`, { query: { path } })
    .catch(ignoring(404, 400))
  answer?.resume()
  const header = answer?.headers['x-docker-container-path-stat']
  if (typeof header !== 'string') return undefined
  const { mode, size, linkTarget } = JSON.parse(Buffer.from(header, 'base64').toString())
  return {
    isFolder: Math.floor(mode / GO_FOLDER) % 2 === 1,
    isLink: Math.floor(mode / GO_LINK) % 2 === 1,
    isFile: GO_TYPES.every((type) => Math.floor(mode / type) % 2 === 0),
    bytes: Number(size),
    link: String(linkTarget ?? ''),
  }
}
