import type { Metrics } from '../platform/metrics.ts'

export type ShownMetrics = Pick<Metrics, 'text' | 'contentType'> & {
  /** Only the operator reads them. */
  isOperatorKey: (key: string) => boolean
}

type Answer = { status: number; headers: Record<string, string>; text: string }

const TEXT = { 'content-type': 'text/plain' }

type Request = { method: string; url: string; authorization: string | undefined }

/** Answers requests outside of tunnels, which come from no sandbox: health, and metrics for the operator. */
export async function answerOutside(metrics: ShownMetrics | undefined, request: Request): Promise<Answer> {
  const { method, url, authorization = '' } = request
  if (url === '/healthz') return { status: 200, headers: TEXT, text: 'ok\n' }
  if (url === '/metrics' && ['GET', 'HEAD'].includes(method) && metrics) {
    const [, key] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (key === undefined || !metrics.isOperatorKey(key))
      return {
        status: 401,
        headers: { ...TEXT, 'www-authenticate': 'Bearer' },
        text: 'The operator key is required.\n',
      }
    return { status: 200, headers: { 'content-type': metrics.contentType }, text: await metrics.text() }
  }
  const text = 'This gateway answers sandboxes, through their workers.\n'
  return { status: 403, headers: { ...TEXT, connection: 'close' }, text }
}
