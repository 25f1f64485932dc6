import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'

export const GatewaySettings = z
  .strictObject({
    recordBodies: z
      .boolean()
      .describe('Store request and response bodies of model calls. They are kept as long as artifacts.'),
  })
  .meta({ id: 'GatewaySettings', description: 'Settings of the workspace for model calls.' })
export type GatewaySettings = z.infer<typeof GatewaySettings>

export const readGatewaySettings = endpoint({
  id: 'readGatewaySettings',
  method: 'GET',
  path: '/api/orgs/{org}/gateway',
  summary: 'Read the gateway settings of a workspace',
  access: 'read',
  answers: { 200: GatewaySettings },
})

export const changeGatewaySettings = endpoint({
  id: 'changeGatewaySettings',
  method: 'PUT',
  path: '/api/orgs/{org}/gateway',
  summary: 'Turn the recording of model calls on or off, for trials that start from now on',
  access: 'admin',
  body: GatewaySettings,
  example: { recordBodies: true },
  answers: { 200: GatewaySettings },
})

export const readCallBodies = endpoint({
  id: 'readCallBodies',
  method: 'GET',
  path: '/api/orgs/{org}/calls/{callId}/bodies',
  summary: 'Download the request and response of a call: two lines of JSON, without headers and key',
  access: 'admin',
  answers: { 200: null },
  download: true,
})
