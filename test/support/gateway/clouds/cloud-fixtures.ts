import type { ScriptInput } from '../../../../samples/provider/script.ts'
import type { Cloud } from '../../../../src/credentials/schema.ts'
import type { Secret } from '../../../../src/credentials/seal.ts'
import type { JsonObject } from '../../../../src/harnesses/json.ts'
import type { Protocol } from '../../../../src/harnesses/model-access.ts'
import { AZURE_KEY, startAzure } from './azure.ts'
import { startBedrock } from './bedrock.ts'
import type { FakeCloud } from './cloud-front.ts'
import { serviceAccount, startVertex, VERTEX_BASE } from './vertex.ts'

/** A fake cloud with one of its protocols, for the contract test of all clouds. */
export type CloudFixture = {
  name: string
  cloud: Cloud
  protocol: Protocol
  model: string
  start: (script: ScriptInput) => Promise<FakeCloud>
  baseUrl: (url: string) => string
  secret: (url: string) => Secret
  /** Changes that make the secret wrong, and the cloud's message. The first one is well-formed. */
  wrongSecrets: { name: string; secret: (url: string) => Secret; message: string }[]
  /** Names of the fields of the secret; those in brackets are optional. */
  fields: string[]
  /** The cloud's answer to a request without authentication. */
  authError: { status: number; body: JsonObject }
}

const AWS = {
  accessKeyId: 'AKIDCANARY0123456789',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+canary0123456789',
  sessionToken: 'IQoJb3JpZ2luX2VjEJr//canary=',
  region: 'eu-central-1',
}

const SIGNATURE_MISMATCH =
  'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.'
const INVALID_TOKEN = 'The security token included in the request is invalid.'

const bedrock: Omit<CloudFixture, 'name' | 'protocol' | 'model' | 'baseUrl'> = {
  cloud: 'bedrock',
  start: (script) => startBedrock(AWS, script),
  secret: () => AWS,
  wrongSecrets: [
    {
      name: 'a wrong secret key',
      secret: () => ({ secretAccessKey: 'wrong-secret-0123456789' }),
      message: SIGNATURE_MISMATCH,
    },
    { name: 'a wrong access key', secret: () => ({ accessKeyId: 'AKIDOTHER' }), message: INVALID_TOKEN },
    { name: 'a wrong session token', secret: () => ({ sessionToken: 'expired-token' }), message: INVALID_TOKEN },
    {
      name: 'a wrong region',
      secret: () => ({ region: 'us-east-1' }),
      message: 'Credential should be scoped to a valid region.',
    },
  ],
  fields: ['accessKeyId', 'secretAccessKey', '[sessionToken]', 'region'],
  authError: { status: 403, body: { message: 'Missing Authentication Token' } },
}

const vertex: Omit<CloudFixture, 'name' | 'protocol' | 'model' | 'baseUrl'> = {
  cloud: 'vertex',
  start: startVertex,
  secret: (url) => ({ serviceAccount: serviceAccount(url) }),
  wrongSecrets: [
    {
      name: 'a wrong private key',
      secret: (url) => ({ serviceAccount: serviceAccount(url, { key: true }) }),
      message: 'Google issued no token: Invalid JWT Signature.',
    },
    {
      name: 'an unknown account',
      secret: (url) => ({ serviceAccount: serviceAccount(url, { email: true }) }),
      message: 'Google issued no token: Invalid grant: account not found',
    },
  ],
  fields: ['serviceAccount'],
  authError: { status: 401, body: { error: { code: 401, status: 'UNAUTHENTICATED' } } },
}

const azure: Omit<CloudFixture, 'name' | 'protocol' | 'baseUrl' | 'secret'> = {
  cloud: 'azure',
  model: 'our gpt-5',
  start: startAzure,
  wrongSecrets: [
    {
      name: 'a wrong key',
      secret: () => ({ apiKey: 'wrong-key-0123456789' }),
      message:
        'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.',
    },
  ],
  fields: ['apiKey', '[apiVersion]'],
  authError: { status: 401, body: { error: { code: '401' } } },
}

/** All clouds, in each of their protocols. */
export const CLOUD_FIXTURES: CloudFixture[] = [
  {
    ...bedrock,
    name: 'Amazon Bedrock, Anthropic',
    protocol: 'anthropic-messages',
    model: 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0',
    baseUrl: (url) => url,
  },
  {
    ...bedrock,
    name: 'Amazon Bedrock, OpenAI',
    protocol: 'openai-chat',
    model: 'openai.gpt-oss-120b-1:0',
    baseUrl: (url) => `${url}/openai/v1`,
  },
  {
    ...vertex,
    name: 'Google Vertex AI, Anthropic',
    protocol: 'anthropic-messages',
    model: 'claude-sonnet-4-5@20250929',
    baseUrl: (url) => `${url}${VERTEX_BASE}`,
  },
  {
    ...vertex,
    name: 'Google Vertex AI, Gemini',
    protocol: 'gemini',
    model: 'gemini-3-pro',
    baseUrl: (url) => `${url}${VERTEX_BASE}`,
  },
  {
    ...vertex,
    name: 'Google Vertex AI, OpenAI',
    protocol: 'openai-chat',
    model: 'meta/llama-4',
    baseUrl: (url) => `${url}${VERTEX_BASE}/endpoints/openapi`,
  },
  {
    ...azure,
    name: 'Azure OpenAI, Chat',
    protocol: 'openai-chat',
    baseUrl: (url) => `${url}/openai/v1`,
    secret: () => ({ apiKey: AZURE_KEY }),
  },
  {
    ...azure,
    name: 'Azure OpenAI, Responses',
    protocol: 'openai-responses',
    baseUrl: (url) => `${url}/openai/v1`,
    secret: () => ({ apiKey: AZURE_KEY }),
  },
  {
    ...azure,
    name: 'Azure OpenAI, Chat with a version',
    protocol: 'openai-chat',
    baseUrl: (url) => url,
    secret: () => ({ apiKey: AZURE_KEY, apiVersion: '2024-10-21' }),
  },
  {
    ...azure,
    name: 'Azure OpenAI, Responses with a version',
    protocol: 'openai-responses',
    baseUrl: (url) => `${url}/openai/v1`,
    secret: () => ({ apiKey: AZURE_KEY, apiVersion: '2025-04-01-preview' }),
  },
]
