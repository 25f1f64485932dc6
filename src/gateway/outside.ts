import type { Metrics } from '../platform/metrics.ts'

export type ShownMetrics = Pick<Metrics, 'text' | 'contentType'>

type Answer = { status: number; headers: Record<string, string>; text: string }

const TEXT = { 'content-type': 'text/plain' }

/** What is asked outside of tunnels, and so by no sandbox: whether it lives, and what it counts. */
export async function answerOutside(
  metrics: ShownMetrics | undefined,
  { method, url }: { method: string; url: string },
): Promise<Answer> {
  if (url === '/healthz') return { status: 200, headers: TEXT, text: 'ok\n' }
  if (url === '/metrics' && ['GET', 'HEAD'].includes(method) && metrics)
    return { status: 200, headers: { 'content-type': metrics.contentType }, text: await metrics.text() }
  const text = 'This gateway answers sandboxes, through their workers.\n'
  return { status: 403, headers: { ...TEXT, connection: 'close' }, text }
}
