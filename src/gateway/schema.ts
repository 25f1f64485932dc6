import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'

export const GatewaySettings = z
  .strictObject({
    recordBodies: z
      .boolean()
      .describe('Whether what is said to models, and what they answer, is kept, for as long as artifacts are.'),
  })
  .meta({ id: 'GatewaySettings' })
export type GatewaySettings = z.infer<typeof GatewaySettings>

export const readGatewaySettings = endpoint({
  id: 'readGatewaySettings',
  method: 'GET',
  path: '/api/orgs/{org}/gateway',
  summary: 'Read what the gateway does for this workspace',
  access: 'read',
  answers: { 200: GatewaySettings },
})

export const changeGatewaySettings = endpoint({
  id: 'changeGatewaySettings',
  method: 'PUT',
  path: '/api/orgs/{org}/gateway',
  summary: 'Say whether what is said to models is kept. It holds for trials that begin from now on',
  access: 'admin',
  body: GatewaySettings,
  example: { recordBodies: true },
  answers: { 200: GatewaySettings },
})

export const readCallBodies = endpoint({
  id: 'readCallBodies',
  method: 'GET',
  path: '/api/orgs/{org}/calls/{callId}/bodies',
  summary: 'Download what was asked and answered in a call: two lines of JSON, without headers and without the key',
  access: 'admin',
  answers: { 200: null },
  download: true,
})
