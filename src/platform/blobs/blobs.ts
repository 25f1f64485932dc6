import { isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Blobs } from './blob.ts'
import { fileBlobs } from './file-blobs.ts'
import { type S3Location, s3Blobs } from './s3-blobs.ts'

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
const PREFIX = /^[\w.-]+(\/[\w.-]+)*$/
const S3_SETTINGS = ['endpoint', 'region', 'pathStyle']

/**
 * Opens `file:DIR` or `s3://bucket/prefix?endpoint=https://…&region=…&pathStyle=1`, where only the bucket is required. S3
 * keys come from the usual AWS sources. S3 uploads are first written to `spoolFolder`. Opening performs no I/O; call
 * `check` to test the access.
 */
export function openBlobs(url: string, spoolFolder: string): Blobs {
  if (url.startsWith('file:')) return fileBlobs(parseFolder(url))
  if (url.startsWith('s3:')) return s3Blobs(parseS3Url(url), spoolFolder)
  throw newSettingError('it must begin with file: or s3://')
}

function parseFolder(url: string): string {
  const path = url.startsWith('file://') ? parseFileUrl(url) : url.slice('file:'.length)
  if (path.trim() === '') throw newSettingError('file: needs a folder, as in file:/var/lib/assay/blobs')
  if (path.includes('\0')) throw newSettingError('the folder contains a NUL character')
  return isAbsolute(path) ? path : resolve(path)
}

function parseFileUrl(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    throw newSettingError('file:// needs a path on this machine, as in file:///var/lib/assay/blobs')
  }
}

function parseS3Url(url: string): S3Location {
  const parsed = URL.parse(url)
  if (!parsed || !url.startsWith('s3://')) throw newSettingError('an S3 address looks like s3://bucket/prefix')
  refuseCredentials(parsed)
  if (!BUCKET.test(parsed.host)) throw newSettingError('the bucket name after s3:// is missing or not valid')
  const prefix = parsed.pathname.replace(/^\/+|\/+$/g, '')
  if (prefix !== '' && !PREFIX.test(prefix))
    throw newSettingError('the prefix may contain letters, digits, and . _ - between slashes')
  return { bucket: parsed.host, prefix, ...parseS3Settings(parsed.searchParams) }
}

function parseS3Settings(query: URLSearchParams): Pick<S3Location, 'endpoint' | 'region' | 'pathStyle'> {
  const unknown = [...query.keys()].find((name) => !S3_SETTINGS.includes(name))
  if (unknown !== undefined)
    throw newSettingError(`unknown setting ${JSON.stringify(unknown)}; use ${S3_SETTINGS.join(', ')}`)
  const pathStyle = query.get('pathStyle') ?? '0'
  if (!['0', '1'].includes(pathStyle)) throw newSettingError('pathStyle must be 0 or 1')
  const endpoint = query.get('endpoint')
  const region = query.get('region')
  if (region === '') throw newSettingError('region must not be empty')
  return {
    pathStyle: pathStyle === '1',
    endpoint: endpoint === null ? undefined : parseEndpoint(endpoint),
    region: region ?? undefined,
  }
}

function parseEndpoint(endpoint: string): string {
  const parsed = URL.parse(endpoint)
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol))
    throw newSettingError('endpoint must be an http or https URL')
  refuseCredentials(parsed)
  return parsed.href
}

function refuseCredentials({ username, password }: URL): void {
  if (username === '' && password === '') return
  throw newSettingError('keys do not belong in it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
}

/** Does not quote the value: it may contain a password by mistake. */
const newSettingError = (problem: string) => new Error(`ASSAY_BLOBS is not valid: ${problem}.`)
