import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { z } from 'zod'
import { createOutbound, type Outbound } from '../../platform/outbound/outbound.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { SandboxUnavailable, SandboxUnreachable } from '../sandbox.ts'
import { type RegistryCredential, type RegistrySettings, readCredential, registryHost } from './registry-settings.ts'

/** A manifest, and the digest of its bytes. */
type RegistryManifest = { digest: string; content: ManifestContent }

const MANIFEST_TYPES = [
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.v2+json',
]
const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/)
const ManifestContent = z.looseObject({
  mediaType: z.enum(MANIFEST_TYPES).optional(),
  config: z.looseObject({ digest: Digest }),
  annotations: z.record(z.string(), z.string()).optional(),
})
export type ManifestContent = z.infer<typeof ManifestContent>

/** `open` is called once for each attempt to send the bytes. */
type RegistryBlob = { digest: string; size: number; open: () => AsyncIterable<Uint8Array> }

/** A repository of an image registry, through the API of the OCI distribution specification. */
export type ImageRegistry = {
  /** Throws if the registry does not answer or the credential may not read the repository. */
  requireRead(signal?: AbortSignal): Promise<void>
  /** Throws if the credential may not push to the repository. */
  requirePush(signal?: AbortSignal): Promise<void>
  /** Finds a manifest by its tag or digest. */
  findManifest(reference: string, signal?: AbortSignal): Promise<RegistryManifest | undefined>
  /** Reads a small blob, such as the settings of an image, and verifies its digest. */
  readBlob(digest: string, signal?: AbortSignal): Promise<Buffer>
  /** Stores a blob, such as a layer. A no-op if the registry has it. */
  putBlob(blob: RegistryBlob, signal?: AbortSignal): Promise<void>
  /** Stores a manifest under a tag and returns its digest. */
  putManifest(tag: string, content: ManifestContent, signal?: AbortSignal): Promise<string>
  /** Deletes a manifest. A no-op if it is missing or the registry does not delete images. */
  deleteManifest(digest: string): Promise<void>
}

/** Maximum size of manifests, and of the settings of an image. Registries have the same limit for manifests. */
const BYTES_MAX = 4 * 1024 * 1024
const ANSWER_TIMEOUT_MS = 30_000
const UPLOAD_TIMEOUT_MS = 15 * 60_000

/** Tag that no image has. */
const NO_TAG = 'assay-none'

export function connectRegistry(settings: RegistrySettings, outbound = createOutbound()): ImageRegistry {
  const host = registryHost(settings.repository)
  const path = settings.repository.slice(host.length + 1)
  const send = (method: string, suffix: string, request: RegistryRequest = {}) =>
    sendAuthorized(outbound, settings, method, `/v2/${path}${suffix}`, request)
  const toError = (answer: Response, action: string) => toRegistryError(settings, answer, action)

  const findManifest: ImageRegistry['findManifest'] = async (reference, signal) => {
    const headers = { accept: MANIFEST_TYPES.join(', ') }
    const answer = await send('GET', `/manifests/${reference}`, { headers, signal })
    if (answer.status === 404) return undefined
    if (answer.status !== 200) throw await toError(answer, 'read images of')
    const bytes = await readBytes(settings, answer)
    const content = ManifestContent.safeParse(parseAnswer(settings, bytes))
    // Assay pushes no other kinds of manifests, such as an index of several platforms.
    return content.success ? { digest: digestOf(bytes), content: content.data } : undefined
  }

  return {
    findManifest,
    async requireRead(signal) {
      const answer = await sendAuthorized(outbound, settings, 'GET', '/v2/', { signal })
      if (answer.status === 404) throw createNotRegistryError(settings)
      if (answer.status !== 200) throw await toError(answer, 'read images of')
      await answer.body?.cancel()
      await findManifest(NO_TAG, signal)
    },
    async requirePush(signal) {
      const upload = await startUpload(send, settings, { signal })
      // Registries remove uploads that are never completed, so a failure to cancel this one is harmless.
      await sendAuthorized(outbound, settings, 'DELETE', `${upload.pathname}${upload.search}`, { signal })
        .then((canceled) => canceled.body?.cancel())
        .catch(() => {})
    },
    async readBlob(digest, signal) {
      const answer = await send('GET', `/blobs/${digest}`, { signal })
      if (answer.status !== 200) throw await toError(answer, 'read images of')
      const bytes = await readBytes(settings, answer)
      if (digestOf(bytes) === digest) return bytes
      throw new SandboxUnavailable(`The image registry ${host} sent content that does not match ${digest}.`)
    },
    async putBlob(blob, signal) {
      if ((await send('HEAD', `/blobs/${blob.digest}`, { signal })).status === 200) return
      // Reuses the authorization of the start of the upload. Otherwise the bytes would be sent twice: the first time, the
      // registry would only ask for the credential.
      const session: AuthorizedSession = {}
      const target = await startUpload(send, settings, { session, signal })
      await sendUpload(outbound, settings, target, { blob, session, signal })
    },
    async putManifest(tag, content, signal) {
      const body = JSON.stringify(content)
      const headers = { 'content-type': content.mediaType ?? MANIFEST_TYPES[0] ?? '' }
      const answer = await send('PUT', `/manifests/${tag}`, { headers, body, signal })
      if (!answer.ok) throw await toError(answer, 'push images to')
      await answer.body?.cancel()
      return digestOf(Buffer.from(body))
    },
    async deleteManifest(digest) {
      const answer = await send('DELETE', `/manifests/${digest}`)
      if (answer.status >= 500 || answer.status === 429) throw await toError(answer, 'delete images of')
      await answer.body?.cancel()
    },
  }
}

/** Starts an upload. Returns the address for its bytes. */
async function startUpload(
  send: (method: string, suffix: string, request: RegistryRequest) => Promise<Response>,
  settings: RegistrySettings,
  request: RegistryRequest,
): Promise<URL> {
  const answer = await send('POST', '/blobs/uploads/', request)
  if (answer.status !== 202) throw await toRegistryError(settings, answer, 'push images to')
  await answer.body?.cancel()
  return new URL(answer.headers.get('location') ?? '', originOf(settings))
}

type BlobUpload = { blob: RegistryBlob; session: AuthorizedSession; signal: AbortSignal | undefined }

/** Sends the bytes of a blob. Another host than the registry gets no credential: the URL itself authorizes the upload. */
async function sendUpload(
  outbound: Outbound,
  settings: RegistrySettings,
  target: URL,
  { blob: { digest, size, open }, session, signal }: BlobUpload,
): Promise<void> {
  requireTls(settings, target)
  const url = new URL(target)
  url.searchParams.append('digest', digest)
  const headers = { 'content-type': 'application/octet-stream', 'content-length': String(size) }
  const upload = { headers, body: open, timeoutMs: UPLOAD_TIMEOUT_MS, signal }
  const answer =
    url.origin === originOf(settings)
      ? await sendAuthorized(outbound, settings, 'PUT', url.href, { ...upload, session })
      : await sendOnce(outbound, settings, url, { ...upload, method: 'PUT' })
  if (answer.status !== 201) throw await toRegistryError(settings, answer, 'push images to')
  await answer.body?.cancel()
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** Docker Hub is `docker.io` in the names of images, but its API has another host. */
const DOCKER_HUB = { name: 'docker.io', host: 'registry-1.docker.io' }

export function originOf({ repository, insecure }: Pick<RegistrySettings, 'repository' | 'insecure'>): string {
  const host = registryHost(repository)
  return `${insecure ? 'http' : 'https'}://${host === DOCKER_HUB.name ? DOCKER_HUB.host : host}`
}

/** The authorization of the last request that needed one, for the next requests. */
type AuthorizedSession = { authorization?: string }

type RegistryRequest = {
  headers?: Record<string, string>
  body?: string | (() => AsyncIterable<Uint8Array>) | undefined
  session?: AuthorizedSession | undefined
  timeoutMs?: number | undefined
  signal?: AbortSignal | undefined
}

/** Sends a request, again with the credential if the registry asks for one, and follows one redirect to the storage. */
async function sendAuthorized(
  outbound: Outbound,
  settings: RegistrySettings,
  method: string,
  path: string,
  request: RegistryRequest,
): Promise<Response> {
  const { session = {}, ...sent } = request
  const url = new URL(path, originOf(settings))
  const attempt = (authorization: string | undefined) => {
    if (authorization !== undefined) session.authorization = authorization
    const headers = { ...request.headers, ...(authorization === undefined ? {} : { authorization }) }
    return sendOnce(outbound, settings, url, { ...sent, method, headers })
  }
  const first = await attempt(session.authorization)
  const answer = first.status === 401 ? await authorizeAndRepeat(outbound, settings, first, attempt) : first
  const location = answer.headers.get('location')
  const isRedirect = answer.status >= 300 && answer.status < 400
  if (method !== 'GET' || !isRedirect || location === null) return answer
  await answer.body?.cancel()
  const target = new URL(location, url)
  requireTls(settings, target)
  // The storage gets no credential: the URL itself authorizes the request.
  return sendOnce(outbound, settings, target, { method, signal: request.signal })
}

async function authorizeAndRepeat(
  outbound: Outbound,
  settings: RegistrySettings,
  first: Response,
  attempt: (authorization: string) => Promise<Response>,
): Promise<Response> {
  const credential = await readCredential(settings)
  const challenge = first.headers.get('www-authenticate') ?? ''
  const authorization = /^bearer /i.test(challenge)
    ? `Bearer ${await requestToken(outbound, settings, challenge, credential)}`
    : credential && formatBasic(credential)
  if (authorization === undefined) return first
  await first.body?.cancel()
  return attempt(authorization)
}

const formatBasic = ({ username, password }: RegistryCredential): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

const TokenAnswer = z.object({ token: z.string().optional(), access_token: z.string().optional() })

/** Requests the token that a registry asks for, at the address that it names. */
async function requestToken(
  outbound: Outbound,
  settings: RegistrySettings,
  challenge: string,
  credential: RegistryCredential | undefined,
): Promise<string> {
  const { realm = '', ...parameters } = Object.fromEntries(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]),
  )
  const url = URL.parse(realm)
  if (url === null) throw new SandboxUnavailable(`The image registry names no address for tokens: ${challenge}`)
  requireTls(settings, url)
  for (const name of ['service', 'scope']) if (parameters[name]) url.searchParams.set(name, parameters[name])
  const headers: Record<string, string> = credential ? { authorization: formatBasic(credential) } : {}
  const answer = await sendOnce(outbound, settings, url, { headers })
  if (answer.status !== 200) throw await toRegistryError(settings, answer, 'use')
  const parsed = TokenAnswer.safeParse(parseAnswer(settings, await readBytes(settings, answer)))
  return parsed.data?.token ?? parsed.data?.access_token ?? ''
}

/** Throws for a URL without TLS: requests carry a credential or the content of an image. */
function requireTls({ repository, insecure }: RegistrySettings, url: URL): void {
  if (url.protocol === 'https:' || insecure) return
  throw new SandboxUnavailable(`The image registry ${registryHost(repository)} refers to ${url.origin} without TLS.`)
}

async function sendOnce(
  outbound: Outbound,
  settings: RegistrySettings,
  url: URL,
  init: Omit<RegistryRequest, 'session'> & { method?: string },
): Promise<Response> {
  const { signal, body, timeoutMs = ANSWER_TIMEOUT_MS, ...rest } = init
  try {
    return await outbound.fetch(url, {
      ...rest,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : Readable.toWeb(Readable.from(body())) }),
      ...(signal === undefined ? {} : { signal }),
      trust: 'operator',
      redirect: 'manual',
      timeoutMs,
      bytesMax: BYTES_MAX,
    })
  } catch (error) {
    signal?.throwIfAborted()
    throw toUnreachable(settings, error)
  }
}

const readBytes = async (settings: RegistrySettings, answer: Response): Promise<Buffer> =>
  Buffer.from(
    await answer.arrayBuffer().catch((error: unknown) => {
      throw toUnreachable(settings, error)
    }),
  )

function parseAnswer(settings: RegistrySettings, bytes: Buffer): unknown {
  const parsed = parseUntrustedJson(bytes.toString())
  if (parsed === undefined) throw createNotRegistryError(settings)
  return parsed
}

const createNotRegistryError = ({ repository }: RegistrySettings): SandboxUnavailable =>
  new SandboxUnavailable(
    `${registryHost(repository)} does not answer as an image registry does. Check registry.repository in the Kubernetes settings.`,
  )

const toUnreachable = ({ repository }: RegistrySettings, error: unknown): SandboxUnreachable =>
  new SandboxUnreachable(
    `The image registry ${registryHost(repository)} does not answer: ${error instanceof Error ? error.message : error} Check registry in the Kubernetes settings: its address, and insecure for plain HTTP.`,
    { cause: error },
  )

const MESSAGE_LENGTH_MAX = 300

/** Converts an error answer. No message contains the credential. */
async function toRegistryError(settings: RegistrySettings, answer: Response, action: string): Promise<Error> {
  const { repository, username, authFile } = settings
  const host = registryHost(repository)
  const message = (await answer.text().catch(() => '')).replaceAll(/\s+/g, ' ').slice(0, MESSAGE_LENGTH_MAX)
  const { status } = answer
  const hasCredential = username !== undefined || authFile !== undefined
  if (status === 401 && !hasCredential)
    return new SandboxUnavailable(
      `The image registry ${host} requires a credential. Set username and passwordFile, or authFile, of registry in the Kubernetes settings.`,
    )
  if (status === 401)
    return new SandboxUnavailable(
      `The image registry ${host} does not accept the credential, or it may not ${action} ${repository}. Check registry in the Kubernetes settings.`,
    )
  if (status === 403)
    return new SandboxUnavailable(
      `The credential of the image registry ${host} may not ${action} ${repository}. Grant this permission: ${message}`,
    )
  if (status === 429 || status >= 500)
    return new SandboxUnreachable(`The image registry ${host} answered ${status}: ${message}`)
  return new SandboxUnavailable(`The image registry ${host} refused to ${action} ${repository}: ${status} ${message}`)
}
