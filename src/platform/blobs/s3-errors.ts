import { codeOf, hasCode } from './error-codes.ts'

type S3Target = { bucket: string; endpoint?: string | undefined }

const CONNECTION_CODES = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH']
const ADVICE: Record<string, string> = {
  NoSuchBucket: 'the bucket does not exist. Create it, or correct ASSAY_BLOBS',
  AccessDenied: 'access denied. These keys need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket',
  Forbidden: 'access denied. These keys need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket',
  InvalidAccessKeyId: 'the access key is not known there. Check AWS_ACCESS_KEY_ID',
  SignatureDoesNotMatch: 'the secret key is wrong. Check AWS_SECRET_ACCESS_KEY',
  CredentialsProviderError:
    'no AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role',
  PermanentRedirect: 'the bucket is in another region. Set region= in ASSAY_BLOBS',
  AuthorizationHeaderMalformed: 'the bucket is in another region. Set region= in ASSAY_BLOBS',
}

/** Adds advice to known errors. Returns other errors unchanged. */
export function explainS3(error: unknown, target: S3Target): unknown {
  const advice = adviceFor(error, target)
  return advice ? new Error(`Cannot use s3://${target.bucket} (ASSAY_BLOBS): ${advice}.`, { cause: error }) : error
}

export const isMissing = (error: unknown): boolean => nameOf(error) === 'NoSuchKey' || nameOf(error) === 'NotFound'

/** Returns true if a retry may succeed: the server is busy or the connection broke. */
export function isTransient(error: unknown): boolean {
  const status = statusOf(error)
  if (status !== undefined) return status >= 500 || status === 429
  return hasCode(error, 'ECONNRESET', 'EPIPE', 'ETIMEDOUT') || nameOf(error) === 'TimeoutError'
}

function adviceFor(error: unknown, { endpoint }: S3Target): string | undefined {
  if (CONNECTION_CODES.includes(codeOf(error)) || nameOf(error) === 'TimeoutError') {
    return `no connection to ${endpoint ?? 'AWS'} (${codeOf(error) || 'timeout'}). Check the endpoint and the network`
  }
  if (error instanceof Error && error.message === 'Region is missing') {
    return 'the region is missing. Add region= to ASSAY_BLOBS, or set AWS_REGION'
  }
  return ADVICE[nameOf(error)]
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '')

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('$metadata' in error)) return undefined
  return (error.$metadata as { httpStatusCode?: number }).httpStatusCode
}
