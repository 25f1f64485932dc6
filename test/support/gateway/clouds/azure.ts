import type { ServerResponse } from 'node:http'
import type { ScriptInput } from '../../../../samples/provider/script.ts'
import { objectOf, parseObject, textOf } from '../../../../src/gateway/protocols/fields.ts'
import type { JsonObject } from '../../../../src/harnesses/json.ts'
import { type CloudDecision, type CloudRequest, type FakeCloud, relayUnchanged, startCloud } from './cloud-front.ts'

export const AZURE_KEY = '0123456789canary0123456789abcdef'
const API_VERSIONS = ['2024-10-21', '2025-04-01-preview']

/** Starts a fake of an Azure OpenAI resource, with the API without versions and with the versioned one. */
export const startAzure = (script: ScriptInput): Promise<FakeCloud> => startCloud({ decide, relay }, script)

const refuse = (status: number, code: string, message: string): CloudDecision => ({
  kind: 'answered',
  status,
  body: { error: { code, message } },
})

const DENIED =
  'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.'

const V1 = /^\/openai(\/v1\/(?:chat\/completions|responses))$/
const DEPLOYMENT = /^\/openai\/deployments\/([^/]+)\/chat\/completions$/

function decide(request: CloudRequest): CloudDecision {
  const { method, path, query, headers, body } = request
  if (headers['api-key'] !== AZURE_KEY) return refuse(401, '401', DENIED)
  if (method === 'GET') return listModels(path, query)
  const json = parseObject(body.toString()) ?? {}
  const plain = V1.exec(path)?.[1]
  if (plain !== undefined) return { kind: 'accepted', path: plain, body: json }
  if (!API_VERSIONS.includes(query.get('api-version') ?? '')) return refuse(404, '404', 'Resource not found')
  return toVersionedRequest(path, json)
}

const listModels = (path: string, query: URLSearchParams): CloudDecision =>
  path === '/openai/v1/models' || (path === '/openai/models' && API_VERSIONS.includes(query.get('api-version') ?? ''))
    ? { kind: 'answered', status: 200, body: { object: 'list', data: [] } }
    : refuse(404, '404', 'Resource not found')

function toVersionedRequest(path: string, body: JsonObject): CloudDecision {
  if (path === '/openai/responses') return { kind: 'accepted', path: '/v1/responses', body }
  const deployment = DEPLOYMENT.exec(path)?.[1]
  // The deployment decides, whatever the body says.
  return deployment === undefined
    ? refuse(404, '404', 'Resource not found')
    : { kind: 'accepted', path: '/v1/chat/completions', body: { ...body, model: decodeURIComponent(deployment) } }
}

const MISSING =
  'The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.'

/** Unknown deployments and rate limits are answered by Azure itself. */
async function relay(answer: Response, response: ServerResponse): Promise<void> {
  if (answer.status !== 404 && answer.status !== 429) return relayUnchanged(answer, response)
  const { error } = parseObject(await answer.text()) ?? {}
  const body =
    answer.status === 404
      ? { error: { code: 'DeploymentNotFound', message: MISSING } }
      : { error: { code: '429', message: textOf(objectOf(error).message) ?? '' } }
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
