import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Blobs } from './blob.ts'
import { fileBlobs } from './file-blobs.ts'
import { s3Blobs } from './s3-blobs.ts'
import type { S3Place } from './s3-store.ts'

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
const PREFIX = /^[\w.-]+(\/[\w.-]+)*$/
const S3_SETTINGS = ['endpoint', 'region', 'pathStyle']

/**
 * `file:DIR`, or `s3://bucket/prefix?endpoint=https://…&region=…&pathStyle=1`, where all but the bucket may be left out.
 * S3 keys come from the usual AWS places. Nothing is read or written before the first call; `check` tells whether it works.
 */
export function openBlobs(url: string, spoolFolder: string): Blobs {
  if (url.startsWith('file:')) return fileBlobs(folderOf(url))
  if (url.startsWith('s3:')) return s3Blobs(placeOf(url), spoolFolder)
  throw wrong('it must begin with file: or s3://')
}

function folderOf(url: string): string {
  const path = url.startsWith('file://') ? pathOfFileUrl(url) : url.slice('file:'.length)
  if (path.trim() === '') throw wrong('file: needs a folder, as in file:/var/lib/assay/blobs')
  if (path.includes('\0')) throw wrong('the folder contains a NUL character')
  return isAbsolute(path) ? path : resolve(path)
}

function pathOfFileUrl(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    throw wrong('file:// needs a path on this machine, as in file:///var/lib/assay/blobs')
  }
}

function placeOf(url: string): S3Place {
  const parsed = URL.parse(url)
  if (!parsed || !url.startsWith('s3://')) throw wrong('an S3 address looks like s3://bucket/prefix')
  refuseCredentials(parsed)
  if (!BUCKET.test(parsed.host)) throw wrong('the bucket name after s3:// is missing or not valid')
  const prefix = parsed.pathname.replace(/^\/+|\/+$/g, '')
  if (prefix !== '' && !PREFIX.test(prefix))
    throw wrong('the prefix may contain letters, digits, and . _ - between slashes')
  return { bucket: parsed.host, prefix, ...settingsOf(parsed.searchParams) }
}

function settingsOf(query: URLSearchParams): Pick<S3Place, 'endpoint' | 'region' | 'pathStyle'> {
  const unknown = [...query.keys()].find((name) => !S3_SETTINGS.includes(name))
  if (unknown !== undefined)
    throw wrong(`it has no setting ${JSON.stringify(unknown)}; there are ${S3_SETTINGS.join(', ')}`)
  const pathStyle = query.get('pathStyle') ?? '0'
  if (!['0', '1'].includes(pathStyle)) throw wrong('pathStyle must be 0 or 1')
  const endpoint = query.get('endpoint')
  const region = query.get('region')
  if (region === '') throw wrong('region must not be empty')
  return {
    pathStyle: pathStyle === '1',
    ...(endpoint !== null && { endpoint: endpointOf(endpoint) }),
    ...(region !== null && { region }),
  }
}

function endpointOf(endpoint: string): string {
  const parsed = URL.parse(endpoint)
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol)) throw wrong('endpoint must be an http or https URL')
  refuseCredentials(parsed)
  return parsed.href
}

function refuseCredentials({ username, password }: URL): void {
  if (username === '' && password === '') return
  throw wrong('keys do not belong in it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
}

/** The value is not repeated: it may hold a password that was put there by mistake. */
const wrong = (what: string) => new Error(`ASSAY_BLOBS is not usable: ${what}.`)
