import type { CloudTransport } from './cloud-transport.ts'

/**
 * Azure OpenAI. Without an API version, the URL is used unchanged. With one, the path names the deployment, except in
 * the Responses protocol, where the body names it as the model.
 */
export const azure: CloudTransport =
  (openStream, { model, secret }) =>
  (url, request) => {
    const { apiKey = '', apiVersion } = secret
    const headers = { ...request.headers, 'api-key': apiKey }
    return openStream(apiVersion === undefined ? url : toVersionedUrl(url, model, apiVersion), { ...request, headers })
  }

const OPERATION_PATH = /(?:\/openai)?\/v1\/(chat\/completions|responses(?:\/\w+)?)(?:\?.*)?$/

const toVersionedUrl = (url: string, deployment: string, apiVersion: string): string =>
  url.replace(OPERATION_PATH, (_, operation: string) => {
    const folder = operation.startsWith('chat/') ? `/openai/deployments/${encodeURIComponent(deployment)}` : '/openai'
    return `${folder}/${operation}?api-version=${encodeURIComponent(apiVersion)}`
  })
